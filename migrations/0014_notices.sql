-- Webhooks: the form of what an endpoint gets, and whether its notices of approvals carry links that decide.
ALTER TABLE webhooks ADD COLUMN format TEXT NOT NULL DEFAULT 'standard' CHECK (format IN ('standard','cloudevents'));
ALTER TABLE webhooks ADD COLUMN decision_links INTEGER NOT NULL DEFAULT 0 CHECK (decision_links IN (0,1));
-- When somebody is reminded of what a person has not answered: once, and NULL from then on.
ALTER TABLE waits ADD COLUMN remind_at INTEGER;
CREATE INDEX waits_remind ON waits (remind_at) WHERE status = 'pending' AND remind_at IS NOT NULL;
