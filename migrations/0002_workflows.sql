-- Workflows and their pinned versions.
CREATE TABLE workflows (
  id    INTEGER PRIMARY KEY AUTOINCREMENT,
  name  TEXT NOT NULL UNIQUE
) STRICT;

-- A workflow's code, pinned: a run goes on with the version that it began with.
CREATE TABLE workflow_versions (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  workflow_id  INTEGER NOT NULL REFERENCES workflows(id),
  version      TEXT NOT NULL,                      -- hash of the tree, or what native and remote code declares
  kind         TEXT NOT NULL CHECK (kind IN ('native','program','remote')),
  manifest     TEXT NOT NULL DEFAULT '{}',         -- JSON
  created_at   INTEGER NOT NULL,
  UNIQUE (workflow_id, version)
) STRICT;

-- The files of program versions: bytes once, by hash.
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
