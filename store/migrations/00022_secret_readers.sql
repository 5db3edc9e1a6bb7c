-- A secret can be for some of the gateways of its namespace.

-- +goose Up
ALTER TABLE mesh.secrets ADD COLUMN service_accounts text[] NOT NULL DEFAULT '{}';

COMMENT ON COLUMN mesh.secrets.service_accounts IS 'The gateways with these service accounts are given it, and no others; all gateways of the namespace if it is empty.';

-- +goose Down
ALTER TABLE mesh.secrets DROP COLUMN service_accounts;
