-- Sinks of the first generation of MCP that want to be dialled.

-- +goose Up
CREATE TABLE mesh.sinks (
  address     text        PRIMARY KEY,
  enabled     boolean     NOT NULL DEFAULT true,
  metadata    jsonb       NOT NULL DEFAULT '{}',
  tls         boolean,
  server_name text,
  server_id   text,
  author      text        NOT NULL DEFAULT '',
  updated_at  timestamptz NOT NULL DEFAULT now()
);

COMMENT ON TABLE  mesh.sinks IS 'Servers that take configuration by the first generation of MCP and want to be dialled. One mcp-server dials each.';

COMMENT ON COLUMN mesh.sinks.address IS 'host:port';

COMMENT ON COLUMN mesh.sinks.metadata IS 'Headers to send to it, an object of strings. Owners and servers see them.';

COMMENT ON COLUMN mesh.sinks.tls IS 'Whether to speak TLS to it. NULL: as the flags of mcp-server say, which have to allow false.';

COMMENT ON COLUMN mesh.sinks.server_name IS 'The name that its certificate has to have, if it is not the one in the address.';

COMMENT ON COLUMN mesh.sinks.server_id IS 'The SPIFFE id that its certificate has to have; then names do not count.';

COMMENT ON COLUMN mesh.sinks.author IS 'Who wrote the row last. Filled in, like updated_at.';

-- +goose Down
DROP TABLE mesh.sinks;
