-- The schema of a new file, as SQLite keeps it. Made by the golden test, from migrations/.
-- application_id = 1651074149
-- user_version = 0
-- auto_vacuum = 2
-- page_size = 2048

CREATE TABLE approvals_audit (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  at           INTEGER NOT NULL,
  run_uid      TEXT NOT NULL,
  run_id       INTEGER NOT NULL,
  workflow     TEXT NOT NULL,
  wait_id      INTEGER,
  name         TEXT NOT NULL,
  digest       BLOB,
  decided_by   TEXT NOT NULL,
  verdict      TEXT NOT NULL CHECK (verdict IN ('accepted','refused','dropped')),
  decision     TEXT NOT NULL,
  why          TEXT,
  chain        BLOB                                  -- hash over the row and its predecessor's
) STRICT;

CREATE TABLE decisions (
  wait_id     INTEGER NOT NULL REFERENCES waits(id) ON DELETE CASCADE,
  decided_by  TEXT NOT NULL,
  decision    TEXT NOT NULL,
  decided_at  INTEGER NOT NULL,
  PRIMARY KEY (wait_id, decided_by)
) STRICT, WITHOUT ROWID;

CREATE TABLE early_decisions (
  run_id      INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  name        TEXT NOT NULL,
  decided_by  TEXT NOT NULL,
  scopes      TEXT NOT NULL,
  decision    TEXT NOT NULL,                         -- the body of the request
  decided_at  INTEGER NOT NULL,
  PRIMARY KEY (run_id, name, decided_by)
) STRICT, WITHOUT ROWID;

CREATE TABLE environments (
  name             TEXT PRIMARY KEY,
  path             TEXT NOT NULL,
  owner_run_id     INTEGER,                          -- goes with this run; no key, ids never come back (D2)
  seed             TEXT,                             -- a folder, copied in whole once
  status           TEXT NOT NULL CHECK (status IN ('seeding','ready','deleting')),
  delete_after_ms  INTEGER,                          -- NULL: only by hand
  last_error       TEXT,                             -- of the change under way
  last_used_at     INTEGER NOT NULL,
  updated_at       INTEGER NOT NULL,                 -- of a change: when somebody last took it up
  created_at       INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX environments_changing ON environments (updated_at) WHERE status <> 'ready';

CREATE TABLE events (
  id       INTEGER PRIMARY KEY,                      -- from the writer's counter (D2)
  at       INTEGER NOT NULL,
  kind     TEXT NOT NULL,                            -- run.started, step.completed, wait.created, control.cancel …
  run_id   INTEGER,
  step_id  INTEGER,
  payload  TEXT NOT NULL DEFAULT '{}'
) STRICT;

CREATE INDEX events_control ON events (at)         WHERE kind >= 'control.' AND kind < 'control/';

CREATE INDEX events_no_run  ON events (at)         WHERE run_id IS NULL;

CREATE INDEX events_run     ON events (run_id, id) WHERE run_id IS NOT NULL;

CREATE TRIGGER events_id_mark AFTER DELETE ON events WHEN NOT EXISTS (SELECT 1 FROM events WHERE id > OLD.id)
  BEGIN
    INSERT INTO meta (key, value) VALUES ('id_mark:events', OLD.id) ON CONFLICT (key) DO UPDATE SET value = excluded.value
     WHERE CAST(value AS INTEGER) < OLD.id;
  END;

CREATE TABLE idempotency (
  principal    TEXT NOT NULL,
  key          TEXT NOT NULL,
  fingerprint  BLOB NOT NULL,                        -- sha256 of method, path and canonical body
  status       INTEGER NOT NULL,
  response     TEXT NOT NULL,
  created_at   INTEGER NOT NULL,
  PRIMARY KEY (principal, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX idempotency_age ON idempotency (created_at);

CREATE VIEW inbox AS
  SELECT w.id AS wait, w.kind, f.name AS workflow, w.run_id AS run, json_extract(w.payload,'$.text') AS asks,
         datetime(w.created_at/1000,'unixepoch') AS since, datetime(w.resolve_by/1000,'unixepoch') AS until
    FROM waits w JOIN runs r ON r.id = w.run_id JOIN workflows f ON f.id = r.workflow_id
   WHERE w.status = 'pending' AND w.kind IN ('approval','question','reconcile');

CREATE VIEW journal AS
  SELECT run_id AS run, seq, position, kind, name, effect, status, executions, result, error,
         datetime(created_at/1000,'unixepoch') AS began, updated_at - created_at AS ms
    FROM steps;

CREATE TABLE meta (
  key    TEXT PRIMARY KEY,
  value  TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE migrations (
  number      INTEGER PRIMARY KEY,
  name        TEXT NOT NULL,
  checksum    TEXT NOT NULL,     -- SHA-256 of the file: a released migration is never edited
  applied_at  INTEGER NOT NULL
) STRICT;

CREATE TABLE outbox (
  id               INTEGER PRIMARY KEY AUTOINCREMENT,
  kind             TEXT NOT NULL CHECK (kind IN ('wake','task','message','webhook')),
  run_id           INTEGER REFERENCES runs(id) ON DELETE SET NULL,
  lane             TEXT NOT NULL,                    -- destination: one row of a lane is sent at a time
  destination      TEXT NOT NULL,
  request          TEXT NOT NULL,
  idem_key         TEXT NOT NULL UNIQUE,             -- the same at every delivery of this row (O3)
  tries            INTEGER NOT NULL DEFAULT 0,
  next_try_at      INTEGER NOT NULL,
  first_failed_at  INTEGER,
  last_error       TEXT,
  parked_at        INTEGER,
  created_at       INTEGER NOT NULL
, webhook_id INTEGER REFERENCES webhooks(id) ON DELETE SET NULL) STRICT;

CREATE INDEX outbox_due ON outbox (next_try_at, id, lane) WHERE parked_at IS NULL;

CREATE INDEX outbox_lane ON outbox (lane, id) WHERE parked_at IS NULL;

CREATE INDEX outbox_parked ON outbox (parked_at)       WHERE parked_at IS NOT NULL;

CREATE INDEX outbox_run    ON outbox (run_id)          WHERE run_id IS NOT NULL;

CREATE INDEX outbox_webhook ON outbox (webhook_id) WHERE webhook_id IS NOT NULL;

CREATE TABLE processes (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  run_id      INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  step_id     INTEGER REFERENCES steps(id) ON DELETE CASCADE,        -- a holder's step
  nonce       TEXT NOT NULL UNIQUE,
  epoch       INTEGER NOT NULL,
  pid         INTEGER NOT NULL,
  pid_start   INTEGER NOT NULL,                      -- in clock ticks: a pid can be used again
  boot_id     TEXT NOT NULL,
  status      TEXT NOT NULL CHECK (status IN ('running','stopping','stopped')),
  exit_code   INTEGER,
  started_at  INTEGER NOT NULL,
  stopped_at  INTEGER
) STRICT;

CREATE INDEX processes_live ON processes (run_id, id) WHERE status <> 'stopped';

CREATE INDEX processes_run  ON processes (run_id);

CREATE INDEX processes_step ON processes (step_id) WHERE step_id IS NOT NULL;

CREATE TABLE program_bytes (
  sha256  BLOB PRIMARY KEY,
  bytes   BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE program_files (
  workflow_version_id  INTEGER NOT NULL REFERENCES workflow_versions(id) ON DELETE CASCADE,
  path                 TEXT NOT NULL,              -- below the version's folder, with '/'
  mode                 INTEGER NOT NULL,           -- permission bits
  sha256               BLOB NOT NULL REFERENCES program_bytes(sha256),
  PRIMARY KEY (workflow_version_id, path)
) STRICT, WITHOUT ROWID;

CREATE INDEX program_files_bytes ON program_files (sha256);

CREATE VIEW run_list AS
  SELECT r.id AS run, f.name AS workflow, r.status, r.reason, r.mission, datetime(r.created_at/1000,'unixepoch') AS created,
         datetime(r.finished_at/1000,'unixepoch') AS finished, r.error
    FROM runs r JOIN workflows f ON f.id = r.workflow_id WHERE r.deleted_at IS NULL;

CREATE TABLE runs (
  id                   INTEGER PRIMARY KEY AUTOINCREMENT,  -- small, never used twice: what people type
  uid                  TEXT NOT NULL,                      -- random: the root of idempotency keys (J6)
  workflow_id          INTEGER NOT NULL REFERENCES workflows(id),
  workflow_version_id  INTEGER NOT NULL REFERENCES workflow_versions(id),
  mission              TEXT,                               -- optional group of runs
  created_by           TEXT NOT NULL,                      -- token's name or uid:1000; children inherit (A7)
  parent_step_id       INTEGER REFERENCES steps(id) ON DELETE SET NULL,
  start_key            TEXT,                               -- u:… of a user, c:… of a parent's step, s:… of a schedule
  status               TEXT NOT NULL CHECK (status IN ('queued','running','waiting','completed','failed','cancelled')),
  reason               TEXT,                               -- why it is not claimed: version_missing, previous_attempt_alive, restored …
  priority             INTEGER NOT NULL DEFAULT 0,
  run_at               INTEGER NOT NULL,                   -- queued: not claimed before; a sleeping run's timer (A12)
  deadline_at          INTEGER,
  paused_at            INTEGER,
  epoch                INTEGER NOT NULL DEFAULT 0 CHECK (epoch >= 0),   -- fencing token: +1 at each claim
  owner                TEXT,                               -- running: 'local:<process uuid>', or the worker's principal
  lease_until          INTEGER,                            -- remote workers only (K3)
  recoveries           INTEGER NOT NULL DEFAULT 0,         -- claims whose attempt ended with the process (K6)
  redrive_at           INTEGER,                            -- W5, W6: not re-driven before
  redrive_delay        INTEGER,
  open_steps_again     INTEGER NOT NULL DEFAULT 0,         -- J9: ended once with an open entry
  cancel_requested_at  INTEGER,
  cancel_reason        TEXT,
  skip_compensation    INTEGER NOT NULL DEFAULT 0,         -- cancelled without taking anything back (X1)
  input                TEXT NOT NULL,
  result               TEXT,
  error                TEXT,                               -- {"code":…,"message":…,"step":…}
  labels               TEXT NOT NULL DEFAULT '{}',
  continued_from       INTEGER,                            -- X7
  created_at           INTEGER NOT NULL,
  started_at           INTEGER,
  finished_at          INTEGER,
  deleted_at           INTEGER, forked_from INTEGER, woken_at INTEGER, deadline_ms INTEGER,                            -- retention is under way
  CHECK ((status = 'running') = (owner IS NOT NULL)),
  CHECK (lease_until IS NULL OR status = 'running'),
  CHECK ((status IN ('completed','failed','cancelled')) = (finished_at IS NOT NULL)),
  CHECK (result IS NULL OR status = 'completed')
) STRICT;

CREATE INDEX runs_cancelled ON runs (run_at, id)       WHERE status = 'queued' AND cancel_requested_at IS NOT NULL;

CREATE INDEX runs_child     ON runs (parent_step_id)   WHERE parent_step_id IS NOT NULL;

CREATE INDEX runs_claimable ON runs (workflow_version_id, priority DESC, run_at, id) WHERE status = 'queued' AND paused_at IS NULL;

CREATE INDEX runs_continued ON runs (continued_from)   WHERE continued_from IS NOT NULL;

CREATE INDEX runs_deadline  ON runs (deadline_at, id)  WHERE deadline_at IS NOT NULL AND finished_at IS NULL AND error IS NULL AND cancel_requested_at IS NULL;

CREATE INDEX runs_deleted ON runs (id) WHERE deleted_at IS NOT NULL;

CREATE INDEX runs_due       ON runs (run_at)           WHERE status = 'queued' AND paused_at IS NULL;

CREATE INDEX runs_failed    ON runs (id)               WHERE status = 'failed';

CREATE INDEX runs_finished  ON runs (finished_at)      WHERE finished_at IS NOT NULL;

CREATE INDEX runs_forked ON runs (forked_from) WHERE forked_from IS NOT NULL;

CREATE INDEX runs_live      ON runs (id)               WHERE finished_at IS NULL;

CREATE INDEX runs_mission   ON runs (mission, id)      WHERE mission IS NOT NULL;

CREATE INDEX runs_redrive   ON runs (redrive_at)       WHERE redrive_at IS NOT NULL;

CREATE INDEX runs_running   ON runs (workflow_id)      WHERE status = 'running';

CREATE UNIQUE INDEX runs_start_key ON runs (workflow_id, start_key) WHERE start_key IS NOT NULL;

CREATE INDEX runs_suspect   ON runs (recoveries)       WHERE status = 'running' AND recoveries >= 3;

CREATE INDEX runs_version   ON runs (workflow_version_id);

CREATE INDEX runs_workflow  ON runs (workflow_id, id);

CREATE TRIGGER runs_edges BEFORE UPDATE OF status, epoch ON runs
  WHEN NEW.epoch < OLD.epoch OR (OLD.status IN ('completed','cancelled') AND NEW.status <> OLD.status)
  BEGIN SELECT RAISE(ABORT, 'illegal run transition'); END;

CREATE TABLE signals (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  run_id       INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  name         TEXT NOT NULL,
  payload      TEXT NOT NULL,
  dedupe_key   TEXT,
  sent_by      TEXT NOT NULL,
  created_at   INTEGER NOT NULL,
  consumed_by  INTEGER REFERENCES steps(id) ON DELETE SET NULL,
  UNIQUE (run_id, name, dedupe_key)
) STRICT;

CREATE INDEX signals_consumed ON signals (consumed_by)      WHERE consumed_by IS NOT NULL;

CREATE INDEX signals_unread   ON signals (run_id, name, id) WHERE consumed_by IS NULL;

CREATE TABLE steps (
  id            INTEGER PRIMARY KEY,
  run_id        INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  position      TEXT NOT NULL,                       -- native, remote: 'branch/seq'; program: 'branch/kind/name/key/n', parts percent-encoded (J5, V3)
  seq           INTEGER NOT NULL CHECK (seq >= 1),   -- order of first appearance in the run
  kind          TEXT NOT NULL CHECK (kind IN ('step','task','timer','approval','question','signal','first_of','child','message','value')),
  name          TEXT NOT NULL,
  effect        TEXT NOT NULL CHECK (effect IN ('pure','idempotent','non_idempotent')),
  status        TEXT NOT NULL CHECK (status IN ('pending','started','needs_reconcile','completed','failed','cancelled')),
  executions    INTEGER NOT NULL DEFAULT 1 CHECK (executions >= 1),
  nonce         TEXT,                                -- of the present execution (K2)
  caller_hash   BLOB,                                -- cwd and exported variables of a program's verb (V3)
  failures      INTEGER NOT NULL DEFAULT 0,          -- recorded failures: compared with retries (E2)
  retries       INTEGER NOT NULL DEFAULT 0,
  not_before    INTEGER,                             -- pending: not executed before
  request       TEXT,
  request_hash  BLOB NOT NULL,                       -- sha256 of the canonical request (D1)
  compensate    TEXT,
  assume        TEXT,                                -- the result if a person says "ran" without one (E4)
  settled_no    INTEGER,                             -- order of settling in the run: compensations run in reverse (E6)
  owner         TEXT,                                -- tasks: who does it (K8)
  lease_until   INTEGER,
  epoch         INTEGER NOT NULL DEFAULT 0,          -- of the attempt that began the present execution
  result        TEXT,
  error         TEXT,                                -- {"code":…,"message":…}; of the last recorded failure while pending or started
  usage         TEXT,                                -- {"tokens":…,"cost":…}
  copied_from   INTEGER,                             -- fork (X4)
  created_at    INTEGER NOT NULL,
  updated_at    INTEGER NOT NULL,
  UNIQUE (run_id, position),
  CHECK (status <> 'pending' OR not_before IS NOT NULL),
  CHECK (result IS NULL OR error IS NULL)
) STRICT;

CREATE INDEX steps_children     ON steps (id)             WHERE status = 'started' AND kind = 'child';

CREATE INDEX steps_leased       ON steps (lease_until)    WHERE status = 'started' AND lease_until IS NOT NULL;

CREATE INDEX steps_undispatched ON steps (not_before, id) WHERE status = 'pending' AND kind = 'task';

CREATE TRIGGER steps_id_mark AFTER DELETE ON steps WHEN NOT EXISTS (SELECT 1 FROM steps WHERE id > OLD.id)
  BEGIN
    INSERT INTO meta (key, value) VALUES ('id_mark:steps', OLD.id) ON CONFLICT (key) DO UPDATE SET value = excluded.value
     WHERE CAST(value AS INTEGER) < OLD.id;
  END;

CREATE TRIGGER steps_settled BEFORE UPDATE OF status, result ON steps
  WHEN OLD.status = 'completed' BEGIN SELECT RAISE(ABORT, 'a completed step never changes'); END;

CREATE VIEW stuck AS
  SELECT 'delivery' AS what, id, last_error AS why, datetime(parked_at/1000,'unixepoch') AS since FROM outbox WHERE parked_at IS NOT NULL
  UNION ALL
  SELECT 'in doubt', run_id, json_extract(payload,'$.text'), datetime(created_at/1000,'unixepoch') FROM waits WHERE kind = 'reconcile' AND status = 'pending'
  UNION ALL
  SELECT 'not claimed', id, reason, datetime(coalesce(started_at, created_at)/1000,'unixepoch') FROM runs WHERE finished_at IS NULL AND reason IS NOT NULL;

CREATE TABLE task_functions (
  name        TEXT PRIMARY KEY,
  url         TEXT NOT NULL,
  created_by  TEXT NOT NULL,
  created_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE tokens (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  name        TEXT NOT NULL UNIQUE,                  -- the principal: shown as resolved_by, created_by
  hash        BLOB NOT NULL UNIQUE,                  -- sha256 of the secret; the secret is shown once
  scopes      TEXT NOT NULL,                         -- words separated by a space: read start approve work admin
  created_at  INTEGER NOT NULL,
  expires_at  INTEGER,
  revoked_at  INTEGER
) STRICT;

CREATE TABLE waits (
  id           INTEGER PRIMARY KEY,                  -- from the writer's counter (D2)
  run_id       INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  step_id      INTEGER NOT NULL REFERENCES steps(id) ON DELETE CASCADE,
  kind         TEXT NOT NULL CHECK (kind IN ('approval','question','timer','signal','child','reconcile')),
  name         TEXT NOT NULL,
  status       TEXT NOT NULL CHECK (status IN ('pending','resolved','expired','cancelled')),
  payload      TEXT NOT NULL,                        -- what is asked: text, options, schema, policy, quorum, data, default
  digest       BLOB NOT NULL,                        -- sha256 of the canonical payload: the ETag that a decision is held to
  resolve_by   INTEGER,                              -- deadline; NULL: never
  resolution   TEXT,                                 -- JSON: what the step gets
  resolved_by  TEXT,
  created_at   INTEGER NOT NULL,
  resolved_at  INTEGER, remind_at INTEGER,
  CHECK ((status = 'pending') = (resolved_at IS NULL))
) STRICT;

CREATE INDEX waits_due   ON waits (resolve_by) WHERE status = 'pending' AND resolve_by IS NOT NULL AND kind <> 'timer';

CREATE INDEX waits_inbox ON waits (id)         WHERE status = 'pending' AND kind IN ('approval','question','reconcile');

CREATE INDEX waits_name  ON waits (run_id, name, id);

CREATE UNIQUE INDEX waits_one_open ON waits (step_id, name) WHERE status = 'pending';

CREATE INDEX waits_open  ON waits (run_id)     WHERE status = 'pending';

CREATE INDEX waits_remind ON waits (remind_at) WHERE status = 'pending' AND remind_at IS NOT NULL;

CREATE INDEX waits_step  ON waits (step_id);

CREATE TRIGGER waits_id_mark AFTER DELETE ON waits WHEN NOT EXISTS (SELECT 1 FROM waits WHERE id > OLD.id)
  BEGIN
    INSERT INTO meta (key, value) VALUES ('id_mark:waits', OLD.id) ON CONFLICT (key) DO UPDATE SET value = excluded.value
     WHERE CAST(value AS INTEGER) < OLD.id;
  END;

CREATE TRIGGER waits_once BEFORE UPDATE OF status ON waits
  WHEN OLD.status <> 'pending' BEGIN SELECT RAISE(ABORT, 'a wait is settled once'); END;

CREATE TABLE webhooks (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  url          TEXT NOT NULL,
  filter       TEXT NOT NULL DEFAULT '{}',           -- {"events":[…],"workflow":…,"mission":…}
  secrets      TEXT NOT NULL,                        -- [{"secret":"whsec_…","until":ms or null}], the newest first
  allow        TEXT NOT NULL DEFAULT '[]',           -- addresses inside that the operator allowed: ["127.0.0.1:9000"]
  disabled_at  INTEGER,
  disabled_why TEXT,
  created_by   TEXT NOT NULL,
  created_at   INTEGER NOT NULL
, format TEXT NOT NULL DEFAULT 'standard' CHECK (format IN ('standard','cloudevents')), decision_links INTEGER NOT NULL DEFAULT 0 CHECK (decision_links IN (0,1))) STRICT;

CREATE INDEX webhooks_on ON webhooks (id) WHERE disabled_at IS NULL;

CREATE TABLE workflow_versions (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  workflow_id  INTEGER NOT NULL REFERENCES workflows(id),
  version      TEXT NOT NULL,                      -- hash of the tree, or what native and remote code declares
  kind         TEXT NOT NULL CHECK (kind IN ('native','program','remote')),
  manifest     TEXT NOT NULL DEFAULT '{}',         -- JSON
  created_at   INTEGER NOT NULL,
  UNIQUE (workflow_id, version)
) STRICT;

CREATE INDEX workflow_versions_remote ON workflow_versions (kind) WHERE kind = 'remote';

CREATE TABLE workflows (
  id    INTEGER PRIMARY KEY AUTOINCREMENT,
  name  TEXT NOT NULL UNIQUE
) STRICT;
