-- Refusals say which field of a resource Envoy's was made from. The view has a column among the others, so it is made anew.

-- +goose Up
DROP VIEW IF EXISTS mesh.refusals;
DROP FUNCTION IF EXISTS mesh_internal.refusals_of(text, text);

-- +goose Down
DROP VIEW IF EXISTS mesh.refusals;
DROP FUNCTION IF EXISTS mesh_internal.refusals_of(text, text);
