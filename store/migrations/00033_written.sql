-- What those write in a day who may not write everywhere is counted: the history keeps every change for months.

-- +goose Up
DROP VIEW IF EXISTS mesh.quotas;
DROP FUNCTION IF EXISTS mesh.find_quotas();

CREATE TABLE mesh.written (
  namespace text   PRIMARY KEY,
  day       date   NOT NULL,
  bytes     bigint NOT NULL
);

COMMENT ON TABLE mesh.written IS 'Internal. What each namespace has added to the history on a day. Read mesh.quotas.';

-- +goose Down
DROP VIEW IF EXISTS mesh.quotas;
DROP FUNCTION IF EXISTS mesh.find_quotas();
DROP TABLE mesh.written;
