-- Changes that revert by themselves unless they are confirmed in time.

-- +goose Up
ALTER TABLE mesh.transactions ADD COLUMN confirm_within interval; -- NULL: it stays without being confirmed

CREATE TABLE mesh.deadlines (
  revision    bigint      PRIMARY KEY,
  within      interval    NOT NULL,
  deadline    timestamptz NOT NULL,
  state       text        NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'confirmed', 'reverted', 'conflict')),
  ended_at    timestamptz,
  ended_by    text,
  reverted_in bigint -- the id of the transaction that reverted it
);

COMMENT ON TABLE mesh.deadlines IS 'Internal. Read mesh.confirmations.';

CREATE INDEX deadlines_waiting ON mesh.deadlines (deadline) WHERE state = 'waiting';

CREATE INDEX deadlines_reverted ON mesh.deadlines (reverted_in) WHERE reverted_in IS NOT NULL;

CREATE TABLE mesh.unreverted (
  revision   bigint NOT NULL REFERENCES mesh.deadlines ON DELETE CASCADE,
  kind       text   NOT NULL,
  api_group  text   NOT NULL,
  namespace  text   NOT NULL,
  name       text   NOT NULL,
  changed_by bigint, -- the revision that had changed the resource last
  reason     text   NOT NULL,
  PRIMARY KEY (revision, kind, api_group, namespace, name)
);

COMMENT ON TABLE mesh.unreverted IS 'Internal. Read mesh.conflicts.';

ALTER TABLE mesh.installation ADD COLUMN pruned_time timestamptz;

COMMENT ON COLUMN mesh.installation.pruned_time IS 'When the last revision whose history is gone was committed.';

-- The history of a namespace, of its resources of a kind, and of one resource.
DROP INDEX mesh.changes_of_resource;

CREATE INDEX changes_of_resource ON mesh.changes (namespace, kind, name);

-- +goose Down
DROP INDEX mesh.changes_of_resource;
CREATE INDEX changes_of_resource ON mesh.changes (kind, namespace, name);
ALTER TABLE mesh.installation DROP COLUMN pruned_time;
DROP TABLE mesh.unreverted;
DROP TABLE mesh.deadlines;
ALTER TABLE mesh.transactions DROP COLUMN confirm_within;
