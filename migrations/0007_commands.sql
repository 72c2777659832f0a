-- Answers to commands that carried an Idempotency-Key (M1), the feed, and who may call.
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

-- Everything that happened, in order: the feed of /v1/events and the history of a run.
CREATE TABLE events (
  id       INTEGER PRIMARY KEY,                      -- from the writer's counter (D2)
  at       INTEGER NOT NULL,
  kind     TEXT NOT NULL,                            -- run.started, step.completed, wait.created, control.cancel …
  run_id   INTEGER,
  step_id  INTEGER,
  payload  TEXT NOT NULL DEFAULT '{}'
) STRICT;
CREATE INDEX events_run     ON events (run_id, id) WHERE run_id IS NOT NULL;
CREATE INDEX events_control ON events (at)         WHERE kind >= 'control.' AND kind < 'control/';
CREATE INDEX events_no_run  ON events (at)         WHERE run_id IS NULL;

CREATE TABLE tokens (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  name        TEXT NOT NULL UNIQUE,                  -- the principal: shown as resolved_by, created_by
  hash        BLOB NOT NULL UNIQUE,                  -- sha256 of the secret; the secret is shown once
  scopes      TEXT NOT NULL,                         -- words separated by a space: read start approve work admin
  created_at  INTEGER NOT NULL,
  expires_at  INTEGER,
  revoked_at  INTEGER
) STRICT;

-- An id that has left the file never comes back (D2): whoever deletes the highest row leaves its number here.
CREATE TRIGGER events_id_mark AFTER DELETE ON events WHEN NOT EXISTS (SELECT 1 FROM events WHERE id > OLD.id)
  BEGIN
    INSERT INTO meta (key, value) VALUES ('id_mark:events', OLD.id) ON CONFLICT (key) DO UPDATE SET value = excluded.value
     WHERE CAST(value AS INTEGER) < OLD.id;
  END;
