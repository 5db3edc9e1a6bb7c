-- Rows of mesh.resources can be deleted around the triggers. The history knows what there was, and each
-- revision notes how many resources it left (40_revisions.sql).

-- missing_rows returns how many resources there are fewer than the newest revision left. Rows that came
-- around the triggers make up for what is missing until they are adopted; and what was deleted around them and
-- made again counts twice, until count_anew.
CREATE OR REPLACE FUNCTION mesh_internal.missing_rows() RETURNS bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT greatest(t.resources - (SELECT count(*) FROM mesh.resources)
      + (SELECT coalesce(sum(mesh_internal.gained(c)), 0) FROM mesh_internal.running_transaction x JOIN mesh_internal.changes c ON c.transaction_id = x.id WHERE x.revision IS NULL), 0)
  FROM mesh_internal.transactions t WHERE t.revision IS NOT NULL ORDER BY t.revision DESC LIMIT 1
$$;

-- deleted_around has the resources that somebody has deleted around the triggers: the history ends with
-- what they were, and there is no row. To look costs with the length of the history, so nobody does
-- unless rows are missing. Changes without a revision are of the running transaction, and come last.
CREATE OR REPLACE VIEW mesh_internal.deleted_around AS
  SELECT l.kind, l.api_group, l.namespace, l.name, l.revision FROM (
    SELECT DISTINCT ON (c.kind, c.api_group, c.namespace, c.name) c.kind, c.api_group, c.namespace, c.name, t.revision, c.after_spec IS NULL AS deleted
    FROM mesh_internal.changes c JOIN mesh_internal.transactions t ON t.id = c.transaction_id
    WHERE NOT EXISTS (SELECT FROM mesh.resources r WHERE r.kind = c.kind AND r.api_group = c.api_group AND r.namespace = c.namespace AND r.name = c.name)
    ORDER BY c.kind, c.api_group, c.namespace, c.name, t.revision DESC) l
  WHERE (SELECT mesh_internal.missing_rows()) > 0 AND l.revision IS NOT NULL AND NOT l.deleted;

COMMENT ON VIEW mesh_internal.deleted_around IS 'Internal. Read mesh.check_installation.';

-- last_known returns the last state of a resource in the history.
CREATE OR REPLACE FUNCTION mesh_internal.last_known(of_kind text, of_group text, in_namespace text, of_name text)
RETURNS TABLE (after_spec jsonb, after_labels jsonb, after_annotations jsonb, revision bigint, begun_at timestamptz, created_at timestamptz, generation bigint)
LANGUAGE sql STABLE AS $$
  SELECT c.after_spec, c.after_labels, c.after_annotations, t.revision, t.begun_at, coalesce(c.before_created_at, t.begun_at),
    coalesce(c.before_generation, 0) + (c.after_spec IS DISTINCT FROM c.before_spec)::int
  FROM mesh_internal.changes c JOIN mesh_internal.transactions t ON t.id = c.transaction_id
  WHERE c.kind = of_kind AND c.api_group = of_group AND c.namespace = in_namespace AND c.name = of_name
  ORDER BY t.revision DESC LIMIT 1
$$;

-- note_deleted records the missing rows as deleted, and returns how many there were. Nobody may write
-- meanwhile, for a resource that somebody makes again is not missing.
CREATE OR REPLACE FUNCTION mesh_internal.note_deleted(of bigint) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  noted bigint;
BEGIN
  INSERT INTO mesh_internal.changes (transaction_id, kind, api_group, namespace, name,
    before_spec, before_labels, before_annotations, before_revision, before_generation, before_created_at, before_updated_at)
  SELECT of, d.kind, d.api_group, d.namespace, d.name, l.after_spec, l.after_labels, l.after_annotations, l.revision, l.generation, l.created_at, l.begun_at
  FROM mesh_internal.deleted_around d, mesh_internal.last_known(d.kind, d.api_group, d.namespace, d.name) l;
  GET DIAGNOSTICS noted = ROW_COUNT;
  RETURN noted;
END $$;

-- count_anew has the newest revision leave as many resources as there are, if the history does not know what
-- is missing, because it was pruned. Nobody may write meanwhile.
CREATE OR REPLACE FUNCTION mesh_internal.count_anew() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  UPDATE mesh_internal.transactions t SET resources = (SELECT count(*) FROM mesh.resources)
    WHERE t.revision = mesh.newest_revision() AND NOT EXISTS (SELECT FROM mesh_internal.running_transaction);
END $$;
