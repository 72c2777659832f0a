-- Facts about this file.
-- One row a fact: agent_id (UUID of the box), incarnation (X6), clock_mark (C6), id_mark:<table> (D2).
CREATE TABLE meta (
  key    TEXT PRIMARY KEY,
  value  TEXT NOT NULL
) STRICT, WITHOUT ROWID;
