-- Which role may read or write which namespace.

-- +goose Up
CREATE TABLE mesh.namespace_grants (
  role       text        NOT NULL,
  namespace  text        NOT NULL CHECK (namespace IN ('', '*') OR namespace ~ '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'),
  privilege  text        NOT NULL CHECK (privilege IN ('read', 'write') OR privilege = 'server' AND namespace = '*'),
  granted_by text        NOT NULL,
  granted_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (role, namespace)
);

COMMENT ON TABLE mesh.namespace_grants IS 'Internal. Read mesh.grants, and change it by mesh.grant_namespace and mesh.revoke_namespace.';

COMMENT ON COLUMN mesh.namespace_grants.role IS 'A name, which outlives a dump into a database whose roles have other numbers.';

ALTER TABLE mesh.resources ENABLE ROW LEVEL SECURITY;
ALTER TABLE mesh.settings ENABLE ROW LEVEL SECURITY;

-- +goose Down
ALTER TABLE mesh.settings DISABLE ROW LEVEL SECURITY;
ALTER TABLE mesh.resources DISABLE ROW LEVEL SECURITY;
DROP TABLE mesh.namespace_grants;
