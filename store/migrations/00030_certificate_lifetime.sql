-- For how long machines are given certificates is a setting, which servers read from where no tenant can hold them up.

-- +goose Up
ALTER TABLE mesh.trust_names ADD COLUMN lifetimes jsonb NOT NULL DEFAULT '{}';

COMMENT ON COLUMN mesh.trust_names.lifetimes IS 'The setting certificate_lifetime in seconds by namespace, that of the mesh by an empty one.';

-- +goose Down
ALTER TABLE mesh.trust_names DROP COLUMN lifetimes;
