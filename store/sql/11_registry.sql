-- What the programs know about kinds is written by migrations, and by nobody else: without a rule
-- nothing is checked by it, and as long as the program is the same no migration would bring it back.

CREATE OR REPLACE FUNCTION mesh_internal.refuse_by_hand() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NOT mesh_internal.does_own_work('registry') THEN
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
