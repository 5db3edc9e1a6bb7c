-- What a migration has made, so that changes by others can be told.

-- +goose Up
CREATE TABLE mesh_internal.installed_objects (
  kind       text NOT NULL,
  name       text NOT NULL,
  definition text NOT NULL,
  server     text NOT NULL,
  state      text NOT NULL DEFAULT 'made' CHECK (state IN ('made', 'changed', 'foreign')),
  PRIMARY KEY (kind, name)
);

COMMENT ON TABLE mesh_internal.installed_objects IS 'Internal. Read mesh.check_installation.';
COMMENT ON COLUMN mesh_internal.installed_objects.kind IS 'What sort of object it is: table, column, constraint, index, trigger, policy, view or function.';
COMMENT ON COLUMN mesh_internal.installed_objects.name IS 'Its name, after that of its table.';
COMMENT ON COLUMN mesh_internal.installed_objects.definition IS 'What it was when it was made.';
COMMENT ON COLUMN mesh_internal.installed_objects.server IS 'The Postgres and the copy of the mesh that wrote the definition, which another may write otherwise.';
COMMENT ON COLUMN mesh_internal.installed_objects.state IS 'made: as a migration made it. changed: somebody had changed it before the last migration. foreign: somebody else made it.';

ALTER TABLE mesh_internal.installation ADD COLUMN noted_digest text NOT NULL DEFAULT '';

COMMENT ON COLUMN mesh_internal.installation.noted_digest IS 'Which schema mesh_internal.installed_objects has the objects of.';

-- +goose Down
ALTER TABLE mesh_internal.installation DROP COLUMN noted_digest;
DROP TABLE mesh_internal.installed_objects;
