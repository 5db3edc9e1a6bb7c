-- Most views are for reading. Postgres would write through those that are simple enough, to what the
-- mesh is made of: a row less of mesh.revisions is a revision less, and servers stop over it. Others it
-- refuses with advice for whoever made the view. So each view that is not made for writing refuses by
-- itself.

-- refuse_view names what changes the things that a view shows, as its comment does.
CREATE OR REPLACE FUNCTION mesh_internal.refuse_view() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = 'MS003', MESSAGE = format('the view %s.%I is for reading', TG_TABLE_SCHEMA, TG_TABLE_NAME),
    HINT = CASE WHEN TG_TABLE_NAME IN ('revisions', 'history', 'changes', 'transactions', 'secret_changes')
      THEN 'mesh.prune(through) forgets the oldest revisions, mesh.revert(revision) takes one back'
      ELSE obj_description(TG_RELID, 'pg_class') END;
END $$;

-- Only a view with a trigger for its rows calls one for statements, which refuses also what would find
-- no row.
DO $$
DECLARE
  view regclass;
BEGIN
  FOR view IN
    SELECT c.oid FROM pg_class c
    WHERE c.relkind = 'v' AND (c.relnamespace = 'mesh'::regnamespace OR c.relnamespace = 'mesh_internal'::regnamespace AND pg_relation_is_updatable(c.oid, false) <> 0)
      AND NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = c.oid AND t.tgname NOT IN ('refuse_row', 'refuse_statement'))
      AND NOT EXISTS (SELECT FROM mesh_internal.installed_objects i WHERE i.kind = 'view' AND i.name = c.oid::regclass::text AND i.state = 'foreign')
      AND pg_has_role(c.relowner, 'USAGE') -- and so is not somebody else's either
  LOOP
    EXECUTE format('DROP TRIGGER IF EXISTS refuse_row ON %1$s; DROP TRIGGER IF EXISTS refuse_statement ON %1$s', view);
    EXECUTE format('CREATE TRIGGER refuse_row INSTEAD OF INSERT OR UPDATE OR DELETE ON %s FOR EACH ROW EXECUTE FUNCTION mesh_internal.refuse_view()', view);
    EXECUTE format('CREATE TRIGGER refuse_statement BEFORE INSERT OR UPDATE OR DELETE ON %s FOR EACH STATEMENT EXECUTE FUNCTION mesh_internal.refuse_view()', view);
  END LOOP;
END $$;
