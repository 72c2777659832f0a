-- Requests to the world outside, written in the transaction that decided them, deleted once delivered (O1).
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
) STRICT;
CREATE INDEX outbox_due    ON outbox (next_try_at, id) WHERE parked_at IS NULL;
CREATE INDEX outbox_parked ON outbox (parked_at)       WHERE parked_at IS NOT NULL;
CREATE INDEX outbox_run    ON outbox (run_id)          WHERE run_id IS NOT NULL;
