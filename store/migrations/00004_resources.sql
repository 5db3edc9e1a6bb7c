-- The resources as they stand. Everything that people and programs write goes through the triggers of this table.

-- +goose Up
CREATE TABLE mesh.resources (
  api_group   text        NOT NULL,
  kind        text        NOT NULL,
  namespace   text        NOT NULL DEFAULT 'default',
  name        text        NOT NULL,
  spec        jsonb       NOT NULL,
  labels      jsonb       NOT NULL DEFAULT '{}',
  annotations jsonb       NOT NULL DEFAULT '{}',
  revision    bigint      NOT NULL DEFAULT 0,
  generation  bigint      NOT NULL DEFAULT 0,
  created_at  timestamptz NOT NULL DEFAULT now(),
  updated_at  timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (kind, api_group, namespace, name)
) WITH (fillfactor = 85); -- Room for the new version of a row beside the old one: an update then touches no index.

COMMENT ON TABLE  mesh.resources IS 'Each resource as it stands. INSERT, UPDATE, DELETE and COPY are all welcome; a transaction becomes one revision.';

COMMENT ON COLUMN mesh.resources.api_group IS 'Filled in where the kind says it all.';

COMMENT ON COLUMN mesh.resources.namespace IS 'Empty for kinds that have no namespace.';

COMMENT ON COLUMN mesh.resources.revision IS 'The revision that changed the resource last. Set at commit, like the three columns after it.';

COMMENT ON COLUMN mesh.resources.generation IS 'How often the spec has changed.';

-- +goose Down
DROP TABLE mesh.resources;
