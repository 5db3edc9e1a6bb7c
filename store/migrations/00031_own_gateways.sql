-- Whether gateways serve the Gateways of their own namespace alone is told to every discovery, which reads it from where no tenant can hold it up.

-- +goose Up
ALTER TABLE mesh.trust_names ADD COLUMN own_gateways boolean NOT NULL DEFAULT false;

COMMENT ON COLUMN mesh.trust_names.own_gateways IS 'Whether gateways serve the Gateways of their own namespace alone: the setting own_gateways, or else whether hosts have owners.';

-- +goose Down
ALTER TABLE mesh.trust_names DROP COLUMN own_gateways;
