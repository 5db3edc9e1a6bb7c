-- Every table says by what a row is found again where it is replicated. Postgres refuses each UPDATE and DELETE of one that does not, as soon as
-- somebody publishes it.

-- +goose Up
ALTER TABLE mesh.schema_parts ADD COLUMN position int;
UPDATE mesh.schema_parts p SET position = n.position
  FROM (SELECT ctid, row_number() OVER (PARTITION BY type) AS position FROM mesh.schema_parts) n WHERE p.ctid = n.ctid;
ALTER TABLE mesh.schema_parts ADD PRIMARY KEY (type, position);
DROP INDEX mesh.schema_parts_by_type; -- the key is as good

ALTER TABLE mesh.unsupported ADD COLUMN position int;
UPDATE mesh.unsupported u SET position = n.position
  FROM (SELECT ctid, row_number() OVER () AS position FROM mesh.unsupported) n WHERE u.ctid = n.ctid;
ALTER TABLE mesh.unsupported ADD PRIMARY KEY (position);

COMMENT ON COLUMN mesh.schema_parts.position IS 'Tells the rows of a type apart.';
COMMENT ON COLUMN mesh.unsupported.position IS 'Tells the rows apart.';

-- Two links can be the same in everything. The whole row costs nothing more where nothing is replicated.
ALTER TABLE mesh.links REPLICA IDENTITY FULL;
ALTER TABLE mesh.numbering REPLICA IDENTITY FULL; -- which has no rows

-- +goose Down
ALTER TABLE mesh.numbering REPLICA IDENTITY DEFAULT;
ALTER TABLE mesh.links REPLICA IDENTITY DEFAULT;
ALTER TABLE mesh.unsupported DROP COLUMN position;
ALTER TABLE mesh.schema_parts DROP COLUMN position;
CREATE INDEX schema_parts_by_type ON mesh.schema_parts (type);
