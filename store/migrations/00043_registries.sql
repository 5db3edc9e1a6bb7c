-- What registries have, mirrored for people who ask in SQL. Nothing of it is a revision, and nothing of it is served.
-- Rows of resources could claim to be of a registry before that was refused. They are served without the claim; marking them
-- as unchecked lists them in mesh.unsound.

-- +goose Up
-- +goose StatementBegin
DO $$
DECLARE
  guarded boolean := EXISTS (SELECT FROM pg_trigger WHERE tgrelid = 'mesh.resources'::regclass AND tgname = 'refuse_between_versions');
BEGIN
  IF EXISTS (SELECT FROM mesh.resources WHERE annotations ?| '{pgmesh.io/origin,pgmesh.io/origin-entry,pgmesh.io/origin-rank}') THEN
    PERFORM set_config('mesh.numbering', (SELECT secret FROM mesh_internal.installation)::text, true);
    IF guarded THEN
      ALTER TABLE mesh.resources DISABLE TRIGGER refuse_between_versions;
    END IF;
    UPDATE mesh.resources SET rules = 0 WHERE annotations ?| '{pgmesh.io/origin,pgmesh.io/origin-entry,pgmesh.io/origin-rank}';
    PERFORM set_config('mesh.numbering', '', true);
    IF guarded THEN
      ALTER TABLE mesh.resources ENABLE TRIGGER refuse_between_versions;
    END IF;
  END IF;
END $$;
-- +goose StatementEnd

CREATE TABLE mesh_internal.registries (
  name    text        PRIMARY KEY,
  rank    integer     NOT NULL,
  keeper  integer,
  server  text        NOT NULL,
  since   timestamptz NOT NULL DEFAULT now(),
  whole   boolean     NOT NULL DEFAULT false,
  stale   timestamptz,
  reason  text        NOT NULL DEFAULT '',
  bad     jsonb       NOT NULL DEFAULT '[]',
  bad_all integer     NOT NULL DEFAULT 0,
  ended   timestamptz
) WITH (fillfactor = 50);

COMMENT ON TABLE mesh_internal.registries IS 'Internal. Read mesh.registries.';
COMMENT ON COLUMN mesh_internal.registries.rank IS 'How many origins count before it.';
COMMENT ON COLUMN mesh_internal.registries.keeper IS 'Whose entries these are, as in mesh_internal.report_keepers: they are kept up for as long as that has its session. NULL for nobody.';
COMMENT ON COLUMN mesh_internal.registries.whole IS 'Whether the keeper has written all that the registry has.';
COMMENT ON COLUMN mesh_internal.registries.stale IS 'Since when the server cannot ask the registry; NULL while it can.';
COMMENT ON COLUMN mesh_internal.registries.bad IS 'A list of objects: the first of the entries that cannot be used. bad_all counts them.';
COMMENT ON COLUMN mesh_internal.registries.ended IS 'Since when it is known that nobody keeps the entries up.';

CREATE TABLE mesh_internal.registry_entries (
  registry    text        NOT NULL REFERENCES mesh_internal.registries ON DELETE CASCADE,
  kind        text        NOT NULL,
  api_group   text        NOT NULL,
  namespace   text        NOT NULL,
  name        text        NOT NULL,
  version     text        NOT NULL,
  labels      jsonb       NOT NULL,
  annotations jsonb       NOT NULL,
  spec        jsonb       NOT NULL,
  hosts       text[]      COLLATE "C" NOT NULL DEFAULT '{}',
  created_at  timestamptz,
  PRIMARY KEY (name, namespace, kind, api_group, registry)
);

CREATE INDEX registry_entries_of_registry ON mesh_internal.registry_entries (registry, kind, api_group, namespace, name);

CREATE INDEX registry_entries_by_host ON mesh_internal.registry_entries USING gin (hosts) WITH (fastupdate = off);

COMMENT ON TABLE mesh_internal.registry_entries IS 'Internal. Read mesh.services.';
COMMENT ON COLUMN mesh_internal.registry_entries.version IS 'Tells contents apart: the version under which servers serve it.';
COMMENT ON COLUMN mesh_internal.registry_entries.hosts IS 'Of a ServiceEntry: its hosts in lower case.';

-- +goose Down
DROP TABLE mesh_internal.registry_entries;
DROP TABLE mesh_internal.registries;
