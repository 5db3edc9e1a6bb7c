-- What registries' configuration names and makes, as mesh_internal.links has it for the database's.

-- +goose Up
CREATE TABLE mesh_internal.registry_links (
  registry  text NOT NULL REFERENCES mesh_internal.registries ON DELETE CASCADE,
  kind      text NOT NULL,
  api_group text NOT NULL,
  namespace text NOT NULL,
  name      text NOT NULL,
  role      text NOT NULL,
  target    text COLLATE "C" NOT NULL,
  part      text COLLATE "C" NOT NULL DEFAULT '',
  port      int,
  scope     text[],
  detail    jsonb,
  path      text NOT NULL
);

CREATE INDEX registry_links_of_resource ON mesh_internal.registry_links (name, namespace, kind, api_group, registry);

CREATE INDEX registry_links_by_target ON mesh_internal.registry_links (target, role);

COMMENT ON TABLE mesh_internal.registry_links IS 'Internal. Read mesh.problems.';

-- Their servers write these again, with what they name.
UPDATE mesh_internal.registry_entries SET version = '' WHERE kind NOT IN ('ServiceEntry', 'WorkloadEntry');

-- +goose Down
DROP TABLE mesh_internal.registry_links;
