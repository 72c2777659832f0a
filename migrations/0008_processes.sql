-- Processes of program runs (guards and holders), as the agent last knew them (K7, W7).
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
