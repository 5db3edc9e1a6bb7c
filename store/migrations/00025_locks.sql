-- Locks that nobody else can take: advisory locks are anybody's who may connect. No tenant has a right on these tables.

-- +goose Up
DROP FUNCTION IF EXISTS mesh.examine_references(bigint);

CREATE TABLE mesh.numbering ();

COMMENT ON TABLE mesh.numbering IS 'Internal. Who holds a lock on it gives a transaction its revision. It has no rows.';

CREATE TABLE mesh.workload_group_locks (slot int PRIMARY KEY) WITH (fillfactor = 10);

COMMENT ON TABLE mesh.workload_group_locks IS 'Internal. Who holds the locks of some rows changes the entries of those WorkloadGroups that fall upon them.';

INSERT INTO mesh.workload_group_locks SELECT generate_series(0, 1023);

CREATE TABLE mesh.sink_holders (
  address  text        PRIMARY KEY,
  pid      int         NOT NULL,
  session  timestamptz NOT NULL,
  taken_at timestamptz NOT NULL DEFAULT now()
);

COMMENT ON TABLE mesh.sink_holders IS 'Internal. Which session of a server dials a sink, by its process and by when that began.';

-- +goose Down
DROP TABLE mesh.sink_holders;
DROP TABLE mesh.workload_group_locks;
DROP TABLE mesh.numbering;
