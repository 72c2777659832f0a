-- For the shell: SELECT * FROM inbox;  SELECT * FROM journal WHERE run = 42;  SELECT * FROM stuck;
-- Views are a supported interface: kept stable over upgrades.
CREATE VIEW inbox AS
  SELECT w.id AS wait, w.kind, f.name AS workflow, w.run_id AS run, json_extract(w.payload,'$.text') AS asks,
         datetime(w.created_at/1000,'unixepoch') AS since, datetime(w.resolve_by/1000,'unixepoch') AS until
    FROM waits w JOIN runs r ON r.id = w.run_id JOIN workflows f ON f.id = r.workflow_id
   WHERE w.status = 'pending' AND w.kind IN ('approval','question','reconcile');

CREATE VIEW journal AS
  SELECT run_id AS run, seq, position, kind, name, effect, status, executions, result, error,
         datetime(created_at/1000,'unixepoch') AS began, updated_at - created_at AS ms
    FROM steps;

CREATE VIEW run_list AS
  SELECT r.id AS run, f.name AS workflow, r.status, r.reason, r.mission, datetime(r.created_at/1000,'unixepoch') AS created,
         datetime(r.finished_at/1000,'unixepoch') AS finished, r.error
    FROM runs r JOIN workflows f ON f.id = r.workflow_id;

CREATE VIEW stuck AS
  SELECT 'delivery' AS what, id, last_error AS why, datetime(parked_at/1000,'unixepoch') AS since FROM outbox WHERE parked_at IS NOT NULL
  UNION ALL
  SELECT 'in doubt', run_id, json_extract(payload,'$.text'), datetime(created_at/1000,'unixepoch') FROM waits WHERE kind = 'reconcile' AND status = 'pending'
  UNION ALL
  SELECT 'not claimed', id, reason, datetime(coalesce(started_at, created_at)/1000,'unixepoch') FROM runs WHERE finished_at IS NULL AND reason IS NOT NULL;
