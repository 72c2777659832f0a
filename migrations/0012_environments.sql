-- Working folders that outlive a run: named, shared by runs, seeded from a folder, deleted when unused for long (W8).
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
