-- What registries' resources say of each other and of the mesh's own, so that problems between them are found by what is named,
-- as in mesh_internal.links. The code fills both tables, for what is there already too.

-- +goose Up
ALTER TABLE mesh_internal.registry_entries DROP COLUMN hosts; -- with its index; services are found by their links

CREATE TABLE mesh_internal.registry_links (
  registry  text NOT NULL,
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
  path      text NOT NULL,
  FOREIGN KEY (name, namespace, kind, api_group, registry) REFERENCES mesh_internal.registry_entries ON DELETE CASCADE
);

CREATE INDEX registry_links_of_entry ON mesh_internal.registry_links (name, namespace, kind, api_group, registry);
CREATE INDEX registry_links_to_target ON mesh_internal.registry_links (role, target, part, namespace, name);
CREATE INDEX registry_links_to_wildcards ON mesh_internal.registry_links (role, part) WHERE target LIKE '*%';

ALTER TABLE mesh_internal.registry_links REPLICA IDENTITY FULL; -- as that of links
COMMENT ON TABLE mesh_internal.registry_links IS 'Internal. Read mesh.problems.';

CREATE TABLE mesh_internal.registry_workloads (
  registry  text  NOT NULL,
  kind      text  NOT NULL,
  api_group text  NOT NULL,
  namespace text  NOT NULL,
  name      text  NOT NULL,
  labels    jsonb NOT NULL,
  FOREIGN KEY (name, namespace, kind, api_group, registry) REFERENCES mesh_internal.registry_entries ON DELETE CASCADE
);

CREATE INDEX registry_workloads_of_entry ON mesh_internal.registry_workloads (name, namespace, kind, api_group, registry);
CREATE INDEX registry_workloads_by_labels ON mesh_internal.registry_workloads USING gin (labels jsonb_path_ops) WITH (fastupdate = off);

ALTER TABLE mesh_internal.registry_workloads REPLICA IDENTITY FULL;
COMMENT ON TABLE mesh_internal.registry_workloads IS 'Internal. Read mesh.problems.';
COMMENT ON COLUMN mesh_internal.registry_workloads.labels IS 'Labels of workloads of the entry, once for those that are alike.';

-- +goose Down
DROP TABLE mesh_internal.registry_workloads;
DROP TABLE mesh_internal.registry_links;
ALTER TABLE mesh_internal.registry_entries ADD COLUMN hosts text[] COLLATE "C" NOT NULL DEFAULT '{}';
UPDATE mesh_internal.registry_entries e SET hosts = ARRAY(SELECT lower(h #>> '{}') FROM jsonb_path_query(e.spec -> 'hosts', '$[*]') h) WHERE e.kind = 'ServiceEntry';
CREATE INDEX registry_entries_by_host ON mesh_internal.registry_entries USING gin (hosts) WITH (fastupdate = off);
COMMENT ON COLUMN mesh_internal.registry_entries.hosts IS 'Of a ServiceEntry: its hosts in lower case.';
