-- Retention (W9): a run that is to go is marked first and shown to nobody, then deleted leaf first over many commits.
CREATE INDEX runs_deleted ON runs (id) WHERE deleted_at IS NOT NULL;

-- Copied entries take their keys from the run that they were copied from (X4): it stays as long as its forks do.
ALTER TABLE runs ADD COLUMN forked_from INTEGER;
CREATE INDEX runs_forked ON runs (forked_from) WHERE forked_from IS NOT NULL;

DROP VIEW run_list;
CREATE VIEW run_list AS
  SELECT r.id AS run, f.name AS workflow, r.status, r.reason, r.mission, datetime(r.created_at/1000,'unixepoch') AS created,
         datetime(r.finished_at/1000,'unixepoch') AS finished, r.error
    FROM runs r JOIN workflows f ON f.id = r.workflow_id WHERE r.deleted_at IS NULL;
