-- Secrets: certificates with their keys, and what authorities are trusted. They are no resources: nothing that shows resources shows them.

-- +goose Up
CREATE TABLE mesh.secrets (
  namespace  text        NOT NULL DEFAULT 'default',
  name       text        NOT NULL,
  type       text        NOT NULL DEFAULT 'Opaque',
  data       jsonb       NOT NULL DEFAULT '{}',
  labels     jsonb       NOT NULL DEFAULT '{}',
  digests    jsonb       NOT NULL DEFAULT '{}',
  not_before timestamptz,
  not_after  timestamptz,
  author     text        NOT NULL DEFAULT '',
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (namespace, name)
);

CREATE INDEX secrets_by_name ON mesh.secrets (name);

ALTER TABLE mesh.secrets ENABLE ROW LEVEL SECURITY;

COMMENT ON TABLE mesh.secrets IS 'Certificates and keys that gateways serve with, and what they trust. To be read and written by those who mesh.grant_secrets was called for.';

COMMENT ON COLUMN mesh.secrets.type IS 'kubernetes.io/tls, or Opaque.';

COMMENT ON COLUMN mesh.secrets.data IS 'As in Kubernetes an object of base64, such as tls.crt and tls.key; mesh.secret_data makes it of plain text. What mcp-server has encrypted begins with pgmesh:';

COMMENT ON COLUMN mesh.secrets.digests IS 'What tells each value from another, and nothing about it. Set by itself, like the columns after it.';

COMMENT ON COLUMN mesh.secrets.not_after IS 'When the first of the certificates in the chain ends or, where there is none, the last of the authorities.';

-- What a transaction did to a secret, without a value.
CREATE TABLE mesh.secret_changes (
  transaction_id bigint NOT NULL,
  namespace      text   NOT NULL,
  name           text   NOT NULL,
  before         jsonb,
  after          jsonb,
  PRIMARY KEY (transaction_id, namespace, name)
);

CREATE INDEX changes_of_secret ON mesh.secret_changes (namespace, name);

COMMENT ON TABLE mesh.secret_changes IS 'Internal. Read mesh.history.';

ALTER TABLE mesh.transactions ADD COLUMN secrets boolean NOT NULL DEFAULT false;

COMMENT ON COLUMN mesh.transactions.secrets IS 'Whether there are rows of it in mesh.secret_changes.';

CREATE TABLE mesh.secret_grants (
  role       text        NOT NULL,
  namespace  text        NOT NULL,
  privilege  text        NOT NULL CHECK (privilege IN ('read', 'write')),
  granted_by text        NOT NULL,
  granted_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (role, namespace)
);

COMMENT ON TABLE mesh.secret_grants IS 'Internal. Read mesh.grants, and change it by mesh.grant_secrets and mesh.revoke_secrets.';

-- +goose Down
DROP TABLE mesh.secret_grants;
ALTER TABLE mesh.transactions DROP COLUMN secrets;
DROP TABLE mesh.secret_changes;
DROP TABLE mesh.secrets;
