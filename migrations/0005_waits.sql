-- What a step waits for. A first-of has several; a question asked anew is a new row.
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
  resolved_at  INTEGER,
  CHECK ((status = 'pending') = (resolved_at IS NULL))
) STRICT;
CREATE UNIQUE INDEX waits_one_open ON waits (step_id, name) WHERE status = 'pending';
CREATE INDEX waits_due   ON waits (resolve_by) WHERE status = 'pending' AND resolve_by IS NOT NULL AND kind <> 'timer';
CREATE INDEX waits_inbox ON waits (id)         WHERE status = 'pending' AND kind IN ('approval','question','reconcile');
CREATE INDEX waits_open  ON waits (run_id)     WHERE status = 'pending';
CREATE INDEX waits_step  ON waits (step_id);
CREATE INDEX waits_name  ON waits (run_id, name, id);

CREATE TRIGGER waits_once BEFORE UPDATE OF status ON waits
  WHEN OLD.status <> 'pending' BEGIN SELECT RAISE(ABORT, 'a wait is settled once'); END;

-- Votes on a wait that is pending or resolved: the quorum.
CREATE TABLE decisions (
  wait_id     INTEGER NOT NULL REFERENCES waits(id) ON DELETE CASCADE,
  decided_by  TEXT NOT NULL,
  decision    TEXT NOT NULL,
  decided_at  INTEGER NOT NULL,
  PRIMARY KEY (wait_id, decided_by)
) STRICT, WITHOUT ROWID;

-- Decisions ahead of their question (A9).
CREATE TABLE early_decisions (
  run_id      INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
  name        TEXT NOT NULL,
  decided_by  TEXT NOT NULL,
  scopes      TEXT NOT NULL,
  decision    TEXT NOT NULL,                         -- the body of the request
  decided_at  INTEGER NOT NULL,
  PRIMARY KEY (run_id, name, decided_by)
) STRICT, WITHOUT ROWID;

-- Every answer, also a refused one. No foreign keys: it outlives its run.
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

-- Signals sent to a run, first in first out by name.
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
CREATE INDEX signals_unread   ON signals (run_id, name, id) WHERE consumed_by IS NULL;
CREATE INDEX signals_consumed ON signals (consumed_by)      WHERE consumed_by IS NOT NULL;

-- An id that has left the file never comes back (D2): whoever deletes the highest row leaves its number here.
CREATE TRIGGER waits_id_mark AFTER DELETE ON waits WHEN NOT EXISTS (SELECT 1 FROM waits WHERE id > OLD.id)
  BEGIN
    INSERT INTO meta (key, value) VALUES ('id_mark:waits', OLD.id) ON CONFLICT (key) DO UPDATE SET value = excluded.value
     WHERE CAST(value AS INTEGER) < OLD.id;
  END;
