-- Going back, as a new revision. The history keeps everything.

-- name_unnamed sets the message of the running change, unless there is one.
CREATE OR REPLACE FUNCTION mesh_internal.name_unnamed(message text) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF coalesce(current_setting('mesh.message', true), '') = '' THEN
    PERFORM set_config('mesh.message', message, true);
  END IF;
END $$;

-- restore locks each row that it writes, so it takes turns with others that write the same
-- resources. It writes neither what is the same already, nor the entries of machines, which exist
-- as long as the machines. Of a kind that no program knows any more nothing can be written.
CREATE OR REPLACE FUNCTION mesh.restore(at bigint, kinds text[] DEFAULT NULL, namespaces text[] DEFAULT NULL, names text[] DEFAULT NULL)
RETURNS TABLE (operation text, api_group text, kind text, namespace text, name text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
  kinds := mesh_internal.kinds_meant(kinds);
  PERFORM mesh_internal.require_moment('revision', at::text), mesh_internal.known_revision(at), mesh_internal.require_names(kinds, namespaces, names), mesh_internal.name_unnamed(format('restore to revision %s', at));
  RETURN QUERY
    WITH target AS MATERIALIZED (
      SELECT t.* FROM mesh_internal.changed_since(at, kinds, namespaces, names) t
      WHERE NOT mesh_internal.is_of_machine(t.kind, t.annotations) AND (t.kind <> 'WorkloadEntry' OR NOT EXISTS (SELECT FROM mesh.resources r
        WHERE r.kind = t.kind AND r.api_group = t.api_group AND r.namespace = t.namespace AND r.name = t.name AND mesh_internal.is_of_machine(r.kind, r.annotations)))
    ), refused AS MATERIALIZED ( -- always one row, as it raises otherwise
      SELECT count(*) AS none FROM (
        SELECT t.*, count(*) OVER () - 1 AS more FROM target t
        WHERE t.spec IS NOT NULL AND NOT mesh_internal.is_known(t.kind, t.api_group)
        ORDER BY t.kind, t.api_group, t.namespace, t.name LIMIT 1) u
      WHERE mesh_internal.refuse('MS002', u.kind, u.namespace, u.name, '', format('no program knows the kind %s of %s any more, so that it cannot be written', u.kind, u.api_group)
          || CASE WHEN u.more > 0 THEN format('; and so it is with %s more', u.more) ELSE '' END,
        'name the kinds that are wanted (mcp-client restore --kind; in SQL, kinds => ARRAY(SELECT kind FROM mesh.kinds) has all that are known)') IS NULL
    ), removed AS (
      DELETE FROM mesh.resources r USING target t
      WHERE t.spec IS NULL AND r.kind = t.kind AND r.api_group = t.api_group AND r.namespace = t.namespace AND r.name = t.name
      RETURNING 'delete', r.api_group, r.kind, r.namespace, r.name
    ), written AS (
      INSERT INTO mesh.resources AS r (api_group, kind, namespace, name, spec, labels, annotations)
      SELECT t.api_group, t.kind, t.namespace, t.name, t.spec, t.labels, t.annotations FROM target t, refused WHERE t.spec IS NOT NULL
      ORDER BY t.kind, t.api_group, t.namespace, t.name
      ON CONFLICT (kind, api_group, namespace, name) DO UPDATE SET spec = EXCLUDED.spec, labels = EXCLUDED.labels, annotations = EXCLUDED.annotations
      WHERE (r.spec, r.labels, r.annotations) IS DISTINCT FROM (EXCLUDED.spec, EXCLUDED.labels, EXCLUDED.annotations)
      RETURNING CASE WHEN r.xmax = 0 THEN 'create' ELSE 'update' END, r.api_group, r.kind, r.namespace, r.name
    )
    SELECT * FROM removed UNION ALL SELECT * FROM written ORDER BY 3, 2, 4, 5;
END $$;

COMMENT ON FUNCTION mesh.restore(bigint, text[], text[], text[]) IS 'Makes the resources, or those of some kinds, namespaces and names, what they were at a revision: as a new revision, all or nothing. Returns what it changed.';

-- A time before the first revision is refused: most likely it is mistaken, and all would be deleted.
CREATE OR REPLACE FUNCTION mesh.restore(at timestamptz, kinds text[] DEFAULT NULL, namespaces text[] DEFAULT NULL, names text[] DEFAULT NULL)
RETURNS TABLE (operation text, api_group text, kind text, namespace text, name text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  revision bigint := mesh.revision_at(at);
BEGIN
  PERFORM mesh_internal.require_moment('time', at::text);
  IF revision = 0 AND mesh.newest_revision() > 0 THEN
    RAISE EXCEPTION USING ERRCODE = 'MS004', MESSAGE = format('the history does not reach back to %s', at),
      HINT = concat_ws('; ', 'the first revision is of ' || (SELECT r.time FROM mesh.revisions r WHERE r.revision = 1), 'mesh.restore(0) deletes all that was made since');
  END IF;
  PERFORM mesh_internal.name_unnamed(format('restore to revision %s, of %s', revision, at));
  RETURN QUERY SELECT * FROM mesh.restore(revision, kinds, namespaces, names);
END $$;

COMMENT ON FUNCTION mesh.restore(timestamptz, text[], text[], text[]) IS 'Makes the resources, or those of some kinds, namespaces and names, what they were at a time. Returns what it changed.';

CREATE OR REPLACE FUNCTION mesh.restore(at text, kinds text[] DEFAULT NULL, namespaces text[] DEFAULT NULL, names text[] DEFAULT NULL)
RETURNS TABLE (operation text, api_group text, kind text, namespace text, name text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM mesh_internal.require_moment('revision or time', at);
  IF mesh_internal.is_revision(at) THEN
    RETURN QUERY SELECT * FROM mesh.restore(at::bigint, kinds, namespaces, names);
  ELSE
    RETURN QUERY SELECT * FROM mesh.restore(mesh_internal.time_meant(at), kinds, namespaces, names);
  END IF;
END $$;

COMMENT ON FUNCTION mesh.restore(text, text[], text[], text[]) IS 'Makes the resources, or those of some kinds, namespaces and names, what they were at a revision or a time, as people type it: 2026-05-01 12:00, 12:00, yesterday, 10 minutes ago. Returns what it changed.';
