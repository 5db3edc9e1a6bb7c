-- name: SetCodeDigest
-- Notes which functions, views and triggers the schema has.
UPDATE mesh_internal.installation SET code_digest = $1

-- name: SetRegistryDigest
-- Notes which kinds the schema knows, unless it knows them.
UPDATE mesh_internal.installation SET registry_digest = $1 WHERE registry_digest <> $1

-- name: SetDigests
-- Notes both, for a script.
UPDATE mesh_internal.installation SET code_digest = $1, registry_digest = $2

-- name: DropCode
-- Drops what was installed, but nothing that others built on it: then Postgres refuses and names that. It
-- also clears the digest of the registry, whose tables may go.
DO $$
DECLARE
  old       record;
  installed regclass := coalesce(to_regclass('mesh_internal.installation'), to_regclass('mesh.installation'));
BEGIN
  FOR old IN
    SELECT tgname, tgrelid::regclass AS relation FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
    WHERE c.relnamespace IN ({{Schemas}}) AND c.relkind IN ('r', 'p') AND NOT t.tgisinternal AND tgname <> 'refuse_between_versions'
  LOOP
    EXECUTE format('DROP TRIGGER %I ON %s', old.tgname, old.relation);
  END LOOP;
  FOR old IN -- those that return rows of a view, which could not go before them
    SELECT p.oid::regprocedure AS routine FROM pg_proc p JOIN pg_class c ON c.reltype = p.prorettype AND c.relkind = 'v' AND c.relnamespace IN ({{Schemas}})
    WHERE p.pronamespace IN ({{Schemas}})
  LOOP
    EXECUTE format('DROP ROUTINE %s', old.routine);
  END LOOP;
  FOR old IN
    SELECT c.oid::regclass AS relation FROM pg_class c WHERE c.relnamespace IN ({{Schemas}}) AND c.relkind = 'v' ORDER BY c.oid DESC
  LOOP
    EXECUTE format('DROP VIEW %s', old.relation);
  END LOOP;
  FOR old IN
    SELECT polname, polrelid::regclass AS relation FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid WHERE c.relnamespace IN ({{Schemas}})
  LOOP
    EXECUTE format('DROP POLICY %I ON %s', old.polname, old.relation);
  END LOOP;
  FOR old IN
    SELECT p.oid::regprocedure AS routine FROM pg_proc p WHERE p.pronamespace IN ({{Schemas}}) AND proname <> 'refuse_between_versions' ORDER BY p.oid DESC
  LOOP
    EXECUTE format('DROP ROUTINE %s', old.routine);
  END LOOP;
  IF EXISTS (SELECT FROM pg_attribute WHERE attrelid = installed AND attname = 'code_digest') THEN
    EXECUTE format('UPDATE %s SET code_digest = '''', registry_digest = ''''', installed);
  END IF;
END $$;

-- name: BlockWrites
-- Prevents writes while there is no code that would record them.
CREATE OR REPLACE FUNCTION mesh.refuse_between_versions() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = 'MS003', MESSAGE = 'the schema is between two versions, and nothing can be written',
    HINT = 'run mcp-server migrate up, of the program that is to use it';
END $$;
DO $$
BEGIN
  IF to_regclass('mesh.resources') IS NOT NULL THEN
    DROP TRIGGER IF EXISTS refuse_between_versions ON mesh.resources;
    CREATE TRIGGER refuse_between_versions BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON mesh.resources
      FOR EACH STATEMENT EXECUTE FUNCTION mesh.refuse_between_versions();
  END IF;
  IF to_regclass('mesh.secrets') IS NOT NULL THEN
    DROP TRIGGER IF EXISTS refuse_between_versions ON mesh.secrets;
    CREATE TRIGGER refuse_between_versions BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON mesh.secrets
      FOR EACH STATEMENT EXECUTE FUNCTION mesh.refuse_between_versions();
  END IF;
END $$;

-- name: UnblockWrites
-- Allows them again.
DROP FUNCTION IF EXISTS mesh.refuse_between_versions CASCADE;

-- name: ViewsFit
-- Whether the views of the kinds fit the code and the registry.
SELECT mesh_internal.views_fit()

-- name: InstallViews
-- Makes the views of the kinds.
SELECT mesh_internal.install_views()

-- name: Recheck
-- Checks some of the resources by the current rules, and says where to go on.
SELECT * FROM mesh_internal.recheck($1, $2, $3, $4)

-- name: RefreshPrivileges
-- Grants to roles what is new in the schema.
SELECT mesh_internal.refresh_privileges()

-- name: AdvanceSequences
-- Has sequences go on after what their tables have, and says how many were behind.
SELECT mesh.advance_sequences()

-- name: MarkChanges
-- Marks what others have changed, before a migration changes more. Older schemas cannot.
DO $$ BEGIN IF EXISTS (SELECT FROM pg_proc WHERE pronamespace IN ({{Schemas}}) AND proname = 'mark_changes') THEN PERFORM mesh_internal.mark_changes(); END IF; END $$

-- name: NoteObjects
-- Notes what the schema has now.
SELECT mesh_internal.note_objects()

-- name: CountDiffering
-- How many objects of the schema others have changed. Older schemas do not know.
SELECT count(*) FROM mesh.check_installation() WHERE kind NOT IN ('schema', 'grants', 'resource')
