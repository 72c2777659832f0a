-- Runs: one execution of a version with an input.
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
  deleted_at           INTEGER,                            -- retention is under way
  CHECK ((status = 'running') = (owner IS NOT NULL)),
  CHECK (lease_until IS NULL OR status = 'running'),
  CHECK ((status IN ('completed','failed','cancelled')) = (finished_at IS NOT NULL)),
  CHECK (result IS NULL OR status = 'completed')
) STRICT;
CREATE INDEX runs_claimable ON runs (workflow_version_id, priority DESC, run_at, id) WHERE status = 'queued' AND paused_at IS NULL;
CREATE INDEX runs_due       ON runs (run_at)           WHERE status = 'queued' AND paused_at IS NULL;
CREATE INDEX runs_running   ON runs (workflow_id)      WHERE status = 'running';
CREATE INDEX runs_suspect   ON runs (recoveries)       WHERE status = 'running' AND recoveries >= 3;
CREATE INDEX runs_cancelled ON runs (run_at, id)       WHERE status = 'queued' AND cancel_requested_at IS NOT NULL;
CREATE INDEX runs_redrive   ON runs (redrive_at)       WHERE redrive_at IS NOT NULL;
CREATE INDEX runs_deadline  ON runs (deadline_at, id)  WHERE deadline_at IS NOT NULL AND finished_at IS NULL AND error IS NULL AND cancel_requested_at IS NULL;
CREATE INDEX runs_continued ON runs (continued_from)   WHERE continued_from IS NOT NULL;
CREATE INDEX runs_live      ON runs (id)               WHERE finished_at IS NULL;
CREATE INDEX runs_failed    ON runs (id)               WHERE status = 'failed';
CREATE INDEX runs_child     ON runs (parent_step_id)   WHERE parent_step_id IS NOT NULL;
CREATE INDEX runs_mission   ON runs (mission, id)      WHERE mission IS NOT NULL;
CREATE INDEX runs_finished  ON runs (finished_at)      WHERE finished_at IS NOT NULL;
CREATE INDEX runs_version   ON runs (workflow_version_id);
CREATE INDEX runs_workflow  ON runs (workflow_id, id);
CREATE UNIQUE INDEX runs_start_key ON runs (workflow_id, start_key) WHERE start_key IS NOT NULL;

-- A hand in the file cannot break what the kernel would not.
CREATE TRIGGER runs_edges BEFORE UPDATE OF status, epoch ON runs
  WHEN NEW.epoch < OLD.epoch OR (OLD.status IN ('completed','cancelled') AND NEW.status <> OLD.status)
  BEGIN SELECT RAISE(ABORT, 'illegal run transition'); END;
