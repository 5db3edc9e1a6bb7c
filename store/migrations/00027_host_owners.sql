-- Hosts have owners.

-- +goose Up
CREATE TABLE mesh.host_owners (
  pattern    text        PRIMARY KEY,
  namespace  text        NOT NULL,
  granted_by text        NOT NULL,
  granted_at timestamptz NOT NULL DEFAULT now()
);

COMMENT ON TABLE mesh.host_owners IS 'Internal. Read mesh.host_grants, and change it by mesh.grant_hosts and mesh.revoke_hosts.';
COMMENT ON COLUMN mesh.host_owners.namespace IS 'Who may claim the host for others; empty for nobody.';

-- +goose Down
DROP TABLE mesh.host_owners;
