-- What the programs know about kinds is written by migrations, and by nobody else: without a rule
-- nothing is checked by it, and as long as the program is the same no migration would bring it back.

-- begin_registry is called before the tables of the registry are written, and holds until
-- end_registry, or the end of the transaction.
CREATE OR REPLACE FUNCTION mesh_internal.begin_registry() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM set_config('mesh.registry', (SELECT secret FROM mesh_internal.installation)::text, true);
END $$;

CREATE OR REPLACE FUNCTION mesh_internal.end_registry() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM set_config('mesh.registry', '', true);
END $$;

CREATE OR REPLACE FUNCTION mesh_internal.refuse_by_hand() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF coalesce(current_setting('mesh.registry', true), '') <> (SELECT secret FROM mesh_internal.installation)::text THEN
    RAISE EXCEPTION USING ERRCODE = 'MS003', MESSAGE = format('the table %s.%I is written by migrations alone', TG_TABLE_SCHEMA, TG_TABLE_NAME),
      HINT = 'kinds and rules are those of the program, which mcp-server migrate up writes; mesh.settings has what can be set otherwise';
  END IF;
  RETURN NULL;
END $$;

DO $$
DECLARE
  registry regclass;
BEGIN
  FOREACH registry IN ARRAY '{mesh.kinds,mesh_internal.schema_types,mesh.schema_fields,mesh_internal.schema_parts,mesh.formats,mesh.rules,mesh_internal.unsupported}'::regclass[] LOOP
    EXECUTE format('DROP TRIGGER IF EXISTS refuse_by_hand ON %s', registry);
    EXECUTE format('CREATE TRIGGER refuse_by_hand BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON %s FOR EACH STATEMENT EXECUTE FUNCTION mesh_internal.refuse_by_hand()', registry);
  END LOOP;
END $$;
