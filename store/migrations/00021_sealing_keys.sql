-- The keys that servers encrypt secrets with, where they are in no file.

-- +goose Up
CREATE TABLE mesh.sealing_keys (
  id         text        PRIMARY KEY,
  wrapped    text        NOT NULL,
  author     text        NOT NULL DEFAULT '',
  created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

COMMENT ON TABLE mesh.sealing_keys IS 'How mcp-server comes to the keys that it encrypts secrets with, given a passphrase or a KMS. Nothing in it is secret, and without it what is encrypted is lost.';

COMMENT ON COLUMN mesh.sealing_keys.wrapped IS 'argon2id: with the numbers and the salt that make the key of a passphrase, or kms: with the key as the KMS has encrypted it.';

-- +goose Down
DROP TABLE mesh.sealing_keys;
