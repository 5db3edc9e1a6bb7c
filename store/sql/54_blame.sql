-- Who set each field to its value. The history of a resource is walked from its first kept change
-- on, beside a second document that has, for each field, the revision that set it. A number counts
-- for everything below it; 0 means older than the history.

-- member_blame returns the blame of a member of a value.
CREATE OR REPLACE FUNCTION mesh_internal.member_blame(blame jsonb, key text) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN jsonb_typeof(blame) = 'object' THEN blame -> key ELSE blame END
$$;

CREATE OR REPLACE FUNCTION mesh_internal.item_blame(blame jsonb, i int) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN jsonb_typeof(blame) = 'array' THEN blame -> i ELSE blame END
$$;

-- blame_change returns the blame after a change, from the one before it.
CREATE OR REPLACE FUNCTION mesh_internal.blame_change(before jsonb, after jsonb, blame jsonb, revision bigint) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  result jsonb;
BEGIN
  IF before = after THEN
    RETURN blame;
  ELSIF jsonb_typeof(before) = 'object' AND jsonb_typeof(after) = 'object' THEN
    SELECT jsonb_object_agg(key, mesh_internal.blame_change(before -> key, value, mesh_internal.member_blame(blame, key), revision)) INTO result
      FROM jsonb_each(after);
  ELSIF jsonb_typeof(before) = 'array' AND jsonb_typeof(after) = 'array' THEN
    SELECT jsonb_agg(mesh_internal.blame_change(before -> before_at, after -> after_at, mesh_internal.item_blame(blame, before_at), revision) ORDER BY after_at) INTO result
      FROM mesh_internal.aligned(before, after) WHERE after_at IS NOT NULL;
  END IF;
  RETURN coalesce(result, to_jsonb(revision)); -- a value of another sort, or an empty one
END $$;

-- blamed_fields lists the fields of a value, down to those with nothing below them.
CREATE OR REPLACE FUNCTION mesh_internal.blamed_fields(at text, field jsonb, blame jsonb) RETURNS TABLE (path text, value jsonb, revision bigint)
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF jsonb_typeof(field) = 'object' AND field <> '{}' THEN
    RETURN QUERY SELECT f.path, f.value, f.revision FROM jsonb_each(field) m (key, member),
      mesh_internal.blamed_fields(mesh_internal.member_path(at, key), member, mesh_internal.member_blame(blame, key)) WITH ORDINALITY f (path, value, revision, i)
      ORDER BY key COLLATE "C", f.i;
  ELSIF jsonb_typeof(field) = 'array' AND field <> '[]' THEN
    RETURN QUERY SELECT f.path, f.value, f.revision FROM jsonb_array_elements(field) WITH ORDINALITY m (item, n),
      mesh_internal.blamed_fields(format('%s[%s]', at, n - 1), item, mesh_internal.item_blame(blame, n::int - 1)) WITH ORDINALITY f (path, value, revision, i)
      ORDER BY n, f.i;
  ELSE
    RETURN QUERY SELECT at, field, blame::bigint;
  END IF;
END $$;

CREATE OR REPLACE FUNCTION mesh.blame(kind text, namespace text, name text, api_group text DEFAULT NULL) RETURNS TABLE (
  path text, value jsonb, revision bigint, "time" timestamptz, author text, application text, message text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  known    mesh.kinds;
  change   record;
  document jsonb;
  blame    jsonb := '0';
BEGIN
  known := mesh_internal.meant_kind(blame.kind, blame.api_group);
  SELECT mesh_internal.as_document(r.labels, r.annotations, r.spec) INTO document FROM mesh.resources r
    WHERE r.kind = known.kind AND r.api_group = known.api_group AND r.namespace = blame.namespace AND r.name = blame.name;
  FOR change IN
    SELECT h.revision, h.before, h.after FROM mesh.history h
    WHERE h.kind = known.kind AND h.api_group = known.api_group AND h.namespace = blame.namespace AND h.name = blame.name ORDER BY h.revision
  LOOP
    document := change.after;
    blame := mesh_internal.blame_change(change.before, change.after, blame, change.revision);
  END LOOP;
  IF document IS NULL THEN
    PERFORM mesh_internal.require_names(ARRAY[known.kind], ARRAY[blame.namespace], ARRAY[blame.name]);
  END IF;
  RETURN QUERY
    SELECT f.path, f.value, nullif(f.revision, 0), t.time, t.author, t.application,
      CASE f.revision WHEN 0 THEN format('before revision %s, where the history begins', mesh.oldest_revision()) ELSE t.message END
    FROM (VALUES (1, 'metadata.labels', 'labels'), (2, 'metadata.annotations', 'annotations'), (3, 'spec', 'spec')) part (n, path, key),
      mesh_internal.blamed_fields(part.path, document -> part.key, mesh_internal.member_blame(blame, part.key)) WITH ORDINALITY AS f (path, value, revision, i)
      LEFT JOIN mesh.history t ON t.revision = f.revision
        AND t.kind = known.kind AND t.api_group = known.api_group AND t.namespace = blame.namespace AND t.name = blame.name
    WHERE document IS NOT NULL AND (part.key = 'spec' OR document -> part.key <> '{}')
    ORDER BY part.n, f.i;
END $$;

COMMENT ON FUNCTION mesh.blame IS 'Returns, for each field of a resource, the revision that set it to its value, and whose that was. A field older than the history has no revision. The kind may be written in any way that the command line takes, such as vs.';
