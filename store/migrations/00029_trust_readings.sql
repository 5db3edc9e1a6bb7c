-- Which server goes by what the mesh trusts as of when, so that whoever revokes is told when it is in force everywhere.

-- +goose Up
-- They come anew, with other columns.
DROP VIEW IF EXISTS mesh.blockers;
DROP FUNCTION IF EXISTS mesh.find_blockers(), mesh.end_blocker(int);

CREATE TABLE mesh.trust_readings (
  server   text        PRIMARY KEY,
  name     text        NOT NULL,
  read_at  timestamptz NOT NULL,
  noted_at timestamptz NOT NULL
) WITH (fillfactor = 25);

COMMENT ON TABLE mesh.trust_readings IS 'Internal. Which servers read what the mesh trusts, and of when that is by which they go.';
COMMENT ON COLUMN mesh.trust_readings.server IS 'The life of a server, and by name how it is called.';
COMMENT ON COLUMN mesh.trust_readings.read_at IS 'What was committed before this it goes by.';
COMMENT ON COLUMN mesh.trust_readings.noted_at IS 'When it said so. One that has not for a while is gone.';

-- +goose Down
DROP TABLE mesh.trust_readings;
