-- Who may call the servers other than by a certificate, and what readers are shown.

-- +goose Up
CREATE TABLE mesh.tokens (
  id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name       text        NOT NULL,
  hash       bytea       NOT NULL UNIQUE CHECK (octet_length(hash) = 32),
  scopes     text[]      NOT NULL CHECK (cardinality(scopes) > 0),
  created_by text        NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz,
  revoked_by text,
  revoked_at timestamptz,
  used_at    timestamptz
);

CREATE UNIQUE INDEX tokens_in_force ON mesh.tokens (name) WHERE revoked_at IS NULL;

COMMENT ON TABLE mesh.tokens IS 'The bearer tokens. mcp-client token makes them, lists them and takes them back. What is kept of a token is a SHA-256 hash, from which it cannot be found.';

COMMENT ON COLUMN mesh.tokens.scopes IS 'What its bearer may do: VERB, VERB:NAMESPACES or VERB:NAMESPACES:KINDS, such as write:shop.';

COMMENT ON COLUMN mesh.tokens.used_at IS 'When it was presented last, to the minute.';

CREATE TABLE mesh.readers (
  id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  identity   text        NOT NULL,
  namespaces text[]      NOT NULL DEFAULT '{*}',
  kinds      text[]      NOT NULL DEFAULT '{*}',
  labels     text        NOT NULL DEFAULT '',
  author     text        NOT NULL DEFAULT '',
  updated_at timestamptz NOT NULL DEFAULT now()
);

COMMENT ON TABLE mesh.readers IS 'What the clients of mcp-server are shown. While there is no row, everything that they may read; else what the rows of their identity name together, and where there is none, nothing.';

COMMENT ON COLUMN mesh.readers.identity IS 'A SPIFFE id, in whose path * stands for one segment, or at the end for all that follow; anonymous; or * for everybody.';

COMMENT ON COLUMN mesh.readers.namespaces IS 'Whose resources; {*} for all. What belongs to no namespace, and the MeshConfig, is shown to all whose kinds it is among.';

COMMENT ON COLUMN mesh.readers.kinds IS 'Of which kinds, such as VirtualService or Gateway.gateway.networking.k8s.io; {*} for all.';

COMMENT ON COLUMN mesh.readers.labels IS 'With which labels, in the syntax of kubectl and mcp-client: region=eu, tier in (web, api). Empty for all.';

COMMENT ON COLUMN mesh.readers.author IS 'Who wrote the row last. Filled in, like updated_at.';

-- +goose Down
DROP TABLE mesh.readers;
DROP TABLE mesh.tokens;
