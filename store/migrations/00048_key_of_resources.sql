-- A duplicate is told by the name of its constraint.

-- +goose Up
ALTER TABLE mesh.resources RENAME CONSTRAINT resources_pkey TO resource_exists_already;

-- +goose Down
ALTER TABLE mesh.resources RENAME CONSTRAINT resource_exists_already TO resources_pkey;
