-- The journal: what each run did, in order. A completed step never runs again.
-- Ids come from the writer's counter, not from AUTOINCREMENT (D2).
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
CREATE INDEX steps_undispatched ON steps (not_before, id) WHERE status = 'pending' AND kind = 'task';
CREATE INDEX steps_children     ON steps (id)             WHERE status = 'started' AND kind = 'child';
CREATE INDEX steps_leased       ON steps (lease_until)    WHERE status = 'started' AND lease_until IS NOT NULL;

CREATE TRIGGER steps_settled BEFORE UPDATE OF status, result ON steps
  WHEN OLD.status = 'completed' BEGIN SELECT RAISE(ABORT, 'a completed step never changes'); END;

-- An id that has left the file never comes back (D2): whoever deletes the highest row leaves its number here.
CREATE TRIGGER steps_id_mark AFTER DELETE ON steps WHEN NOT EXISTS (SELECT 1 FROM steps WHERE id > OLD.id)
  BEGIN
    INSERT INTO meta (key, value) VALUES ('id_mark:steps', OLD.id) ON CONFLICT (key) DO UPDATE SET value = excluded.value
     WHERE CAST(value AS INTEGER) < OLD.id;
  END;
