-- How many resources each revision left, so that rows that were deleted around the triggers are missed
-- without reading the history.

-- +goose Up
ALTER TABLE mesh_internal.transactions ADD COLUMN resources bigint;

COMMENT ON COLUMN mesh_internal.transactions.resources IS 'How many resources there were after it. NULL if nobody has counted.';

UPDATE mesh_internal.transactions SET resources = (SELECT count(*) FROM mesh.resources)
  WHERE revision = (SELECT max(revision) FROM mesh_internal.transactions);

-- +goose Down
ALTER TABLE mesh_internal.transactions DROP COLUMN resources;
