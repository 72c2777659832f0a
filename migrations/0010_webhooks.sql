-- Endpoints of others that hear of events (O6), and the rows that go to them.
CREATE TABLE webhooks (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  url          TEXT NOT NULL,
  filter       TEXT NOT NULL DEFAULT '{}',           -- {"events":[…],"workflow":…,"mission":…}
  secrets      TEXT NOT NULL,                        -- [{"secret":"whsec_…","until":ms or null}], the newest first
  allow        TEXT NOT NULL DEFAULT '[]',           -- addresses inside that the operator allowed: ["127.0.0.1:9000"]
  disabled_at  INTEGER,
  disabled_why TEXT,
  created_by   TEXT NOT NULL,
  created_at   INTEGER NOT NULL
) STRICT;
CREATE INDEX webhooks_on ON webhooks (id) WHERE disabled_at IS NULL;

ALTER TABLE outbox ADD COLUMN webhook_id INTEGER REFERENCES webhooks(id) ON DELETE SET NULL;
CREATE INDEX outbox_webhook ON outbox (webhook_id) WHERE webhook_id IS NOT NULL;
-- What is not parked, by destination. The lane stands in the index of what is due: full lanes are passed over unread.
CREATE INDEX outbox_lane ON outbox (lane, id) WHERE parked_at IS NULL;
DROP INDEX outbox_due;
CREATE INDEX outbox_due ON outbox (next_try_at, id, lane) WHERE parked_at IS NULL;
-- O7: where no workflow is remote, nothing of the queue is read.
CREATE INDEX workflow_versions_remote ON workflow_versions (kind) WHERE kind = 'remote';
