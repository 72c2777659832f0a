-- Remote workflows (O7): when the app of a queued run was last told to come for it. NULL: not since the run was queued.
ALTER TABLE runs ADD COLUMN woken_at INTEGER;
