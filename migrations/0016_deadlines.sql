-- X5: how long a run may take, as declared. deadline_at follows from it: at the start, at a retry, in a fork.
ALTER TABLE runs ADD COLUMN deadline_ms INTEGER;
UPDATE runs SET deadline_ms = deadline_at - created_at WHERE deadline_at IS NOT NULL;
