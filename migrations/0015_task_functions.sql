-- Functions of tasks that are called at a URL (K8), instead of waiting for a worker that comes for them.
CREATE TABLE task_functions (
  name        TEXT PRIMARY KEY,
  url         TEXT NOT NULL,
  created_by  TEXT NOT NULL,
  created_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
