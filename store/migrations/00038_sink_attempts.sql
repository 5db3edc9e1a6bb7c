-- What came of dialling a sink, at each server that has tried: one that cannot reach it lets go of it, for one that can.

-- +goose Up
CREATE TABLE mesh.sink_attempts (
  address   text        NOT NULL,
  server    text        NOT NULL,
  connected boolean     NOT NULL,
  since     timestamptz NOT NULL,
  error     text        NOT NULL DEFAULT '',
  let_go_at timestamptz,
  told_at   timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (address, server)
);

ALTER TABLE mesh.sink_holders ADD COLUMN server text NOT NULL DEFAULT '';

COMMENT ON TABLE mesh.sink_attempts IS 'Internal. What came of dialling a sink at each server. Read mesh.sink_status.';

-- +goose Down
DROP VIEW IF EXISTS mesh.sink_status;
ALTER TABLE mesh.sink_holders DROP COLUMN server;
DROP TABLE mesh.sink_attempts;
