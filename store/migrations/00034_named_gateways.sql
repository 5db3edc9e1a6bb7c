-- A private key goes to the gateways that its secret names. A mesh that has keys which name none keeps giving them to all, until its owner turns the
-- setting on; mesh.problems names these secrets.

-- +goose Up
ALTER TABLE mesh.settings DISABLE TRIGGER USER; -- the older program does not know the setting
INSERT INTO mesh.settings (namespace, name, value)
  SELECT '', 'named_gateways', 'off' WHERE EXISTS (SELECT FROM mesh.secrets s WHERE s.service_accounts = '{}' AND s.data ?| '{tls.key,key}')
  ON CONFLICT DO NOTHING;
ALTER TABLE mesh.settings ENABLE TRIGGER USER;

-- +goose Down
SELECT 1;
