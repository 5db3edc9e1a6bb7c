-- What operators set, for the whole mesh or a namespace, and what resources say of each other.

-- +goose Up
CREATE TABLE mesh.settings (
  namespace  text        NOT NULL DEFAULT '',
  name       text        NOT NULL,
  value      text        NOT NULL,
  author     text        NOT NULL DEFAULT '',
  updated_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (name, namespace)
);

COMMENT ON TABLE  mesh.settings IS 'What was set, for the whole mesh or for a namespace. Delete a row to go back to the default. mesh.known_settings lists what can be set.';

COMMENT ON COLUMN mesh.settings.namespace IS 'Empty for the whole mesh. What a namespace sets for itself comes first there.';

COMMENT ON COLUMN mesh.settings.author IS 'Who wrote the row last. Filled in, like updated_at.';

-- Each place where a resource names something, or makes something that others name. It is derived from the specs at commit,
-- so that what hangs in the air is found by what was named, and not by reading every spec.
CREATE TABLE mesh.links (
  kind      text NOT NULL,
  api_group text NOT NULL,
  namespace text NOT NULL,
  name      text NOT NULL,
  role      text NOT NULL,                          -- what the resource does with what it names
  target    text COLLATE "C" NOT NULL,              -- a host, or namespace/name of a resource
  part      text COLLATE "C" NOT NULL DEFAULT '',   -- of the target: a subset, a port, a section
  port      int,
  scope     text[],                                 -- the namespaces that it is for, "*" for all
  detail    jsonb,
  path      text NOT NULL
);

COMMENT ON TABLE mesh.links IS 'Internal. Read mesh.problems.';

CREATE INDEX links_of_resource ON mesh.links (name, namespace, kind);
CREATE INDEX links_to_target ON mesh.links (role, target, part, namespace, name);
CREATE INDEX links_to_wildcards ON mesh.links (role, part) WHERE target LIKE '*%';

CREATE TYPE mesh.link_problem AS (
  severity text, code text, kind text, api_group text, namespace text, name text, path text, message text, hint text);

-- +goose Down
DROP TYPE mesh.link_problem;
DROP TABLE mesh.links;
DROP TABLE mesh.settings;
