-- What differs between two revisions, one row per field.

-- aligned pairs the positions of two lists. A common beginning and end stay paired, so that an
-- inserted or removed item moves nothing else; what lies between is paired in order. An item
-- without a counterpart has NULL. This function and those below are plain SQL that Postgres
-- inlines: a call for each value would cost more than comparing it.
CREATE OR REPLACE FUNCTION mesh_internal.aligned(before jsonb, after jsonb) RETURNS TABLE (before_at int, after_at int)
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN i < n - tail THEN i WHEN i >= middle THEN i - middle + n - tail END,
    CASE WHEN i < m - tail THEN i WHEN i >= middle THEN i - middle + m - tail END
  FROM (SELECT jsonb_array_length(before) AS n, jsonb_array_length(after) AS m) lengths,
    LATERAL (SELECT coalesce(min(i) FILTER (WHERE before -> i <> after -> i), least(n, m)) AS head
      FROM generate_series(0, least(n, m) - 1) i) heads,
    LATERAL (SELECT coalesce(min(i) FILTER (WHERE before -> (n - 1 - i) <> after -> (m - 1 - i)), least(n, m) - head) AS tail
      FROM generate_series(0, least(n, m) - head - 1) i) tails,
    LATERAL (SELECT greatest(n, m) - tail AS middle) middles,
    LATERAL generate_series(0, middle + tail - 1) i
$$;

-- have_parts reports whether two values are compared part by part, and not as a whole.
CREATE OR REPLACE FUNCTION mesh_internal.have_parts(before jsonb, after jsonb) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
  SELECT coalesce(jsonb_typeof(before) = jsonb_typeof(after) AND jsonb_typeof(after) IN ('object', 'array'), false)
$$;

-- differing_members returns the differences of two objects, and nothing for other values. Place
-- orders the members.
CREATE OR REPLACE FUNCTION mesh_internal.differing_members(at text, was jsonb, became jsonb) RETURNS TABLE (place text, path text, before jsonb, after jsonb)
LANGUAGE sql IMMUTABLE AS $$
  SELECT key, mesh_internal.member_path(at, key), was -> key, became -> key FROM jsonb_object_keys(became) key
  WHERE jsonb_typeof(was) = 'object' AND jsonb_typeof(became) = 'object' AND was -> key IS DISTINCT FROM became -> key
  UNION ALL
  SELECT key, mesh_internal.member_path(at, key), was -> key, NULL FROM jsonb_object_keys(was) key
  WHERE jsonb_typeof(was) = 'object' AND jsonb_typeof(became) = 'object' AND NOT became ? key
$$;

-- differing_items returns the differences of two lists, and nothing for other values. A path has
-- the position in the later list, or, if the item is gone, in the earlier list, after the item that
-- replaced it.
CREATE OR REPLACE FUNCTION mesh_internal.differing_items(at text, was jsonb, became jsonb) RETURNS TABLE (place text, path text, before jsonb, after jsonb)
LANGUAGE sql IMMUTABLE AS $$
  SELECT to_char(coalesce(after_at, before_at), 'FM0000000000') || CASE WHEN after_at IS NULL THEN '-' ELSE '' END,
    format('%s[%s]', at, coalesce(after_at, before_at)), was -> before_at, became -> after_at
  FROM mesh_internal.aligned(was, became)
  WHERE jsonb_typeof(was) = 'array' AND jsonb_typeof(became) = 'array' AND was -> before_at IS DISTINCT FROM became -> after_at
$$;

-- differing_resources returns what changed between two revisions, from the first and the last
-- change of each resource; or, without revisions, what the running transaction has changed. It
-- includes what was changed back; the comparison of fields sorts that out. Positions of rows are
-- stable within a query.
CREATE OR REPLACE FUNCTION mesh_internal.differing_resources(low bigint, high bigint, kinds text[], namespaces text[], names text[]) RETURNS TABLE (
  api_group text, kind text, namespace text, name text,
  before_spec jsonb, before_labels jsonb, before_annotations jsonb, after_spec jsonb, after_labels jsonb, after_annotations jsonb)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
DECLARE
  among text[] := mesh_internal.readable_among(namespaces);
BEGIN
  IF low IS NULL THEN
    RETURN QUERY SELECT * FROM mesh_internal.pending_resources(kinds, among, names);
    RETURN;
  END IF;
  RETURN QUERY
    SELECT f.api_group, f.kind, f.namespace, f.name,
      f.before_spec, f.before_labels, f.before_annotations, l.after_spec, l.after_labels, l.after_annotations
    FROM (
        SELECT (array_agg(c.ctid ORDER BY t.revision))[1] AS first, (array_agg(c.ctid ORDER BY t.revision DESC))[1] AS last
        FROM mesh_internal.transactions t JOIN mesh_internal.changes c ON c.transaction_id = t.id
        WHERE t.revision > low AND t.revision <= high
          AND (kinds IS NULL OR c.kind = ANY (kinds)) AND (among IS NULL OR c.namespace = ANY (among)) AND (names IS NULL OR c.name = ANY (names))
        GROUP BY c.kind, c.api_group, c.namespace, c.name) e
      JOIN mesh_internal.changes f ON f.ctid = e.first
      JOIN mesh_internal.changes l ON l.ctid = e.last
    WHERE f.before_spec IS NOT NULL OR l.after_spec IS NOT NULL;
END $$;

-- differing_fields walks all resources at once, one level of their values per step, and does not
-- look into equal values. It unpacks a value (#> '{}') before it looks up its members one by one.
CREATE OR REPLACE FUNCTION mesh_internal.differing_fields(low bigint, high bigint, kinds text[], namespaces text[], names text[])
RETURNS TABLE (api_group text, kind text, namespace text, name text, operation text, path text, before jsonb, after jsonb)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
    WITH RECURSIVE changed AS MATERIALIZED (SELECT * FROM mesh_internal.differing_resources(low, high, kinds, namespaces, names)),
    walked AS (
      SELECT c.api_group, c.kind, c.namespace, c.name, ARRAY[part.n] AS place, part.path, part.before #> '{}' AS before, part.after #> '{}' AS after,
        mesh_internal.have_parts(part.before, part.after) AS has_parts
      FROM changed c, LATERAL (VALUES ('1', 'metadata.labels', c.before_labels, c.after_labels),
        ('2', 'metadata.annotations', c.before_annotations, c.after_annotations), ('3', 'spec', c.before_spec, c.after_spec)) part (n, path, before, after)
      WHERE c.before_spec IS NOT NULL AND c.after_spec IS NOT NULL AND part.before IS DISTINCT FROM part.after
      UNION ALL
      SELECT w.api_group, w.kind, w.namespace, w.name, w.place || part.place, part.path, part.before, part.after,
        mesh_internal.have_parts(part.before, part.after)
      FROM walked w, LATERAL (
        SELECT * FROM mesh_internal.differing_members(w.path, w.before, w.after)
        UNION ALL SELECT * FROM mesh_internal.differing_items(w.path, w.before, w.after)) part
      WHERE w.has_parts)
    SELECT d.api_group, d.kind, d.namespace, d.name, d.operation, d.path, d.before, d.after FROM (
      SELECT w.api_group, w.kind, w.namespace, w.name, w.place, 'update' AS operation, w.path, w.before, w.after FROM walked w WHERE NOT w.has_parts
      UNION ALL
      SELECT c.api_group, c.kind, c.namespace, c.name, '{}', mesh_internal.operation(c.before_spec, c.after_spec), '',
        mesh_internal.as_document(c.before_labels, c.before_annotations, c.before_spec), mesh_internal.as_document(c.after_labels, c.after_annotations, c.after_spec)
      FROM changed c WHERE c.before_spec IS NULL OR c.after_spec IS NULL) d
    ORDER BY d.kind COLLATE "C", d.api_group COLLATE "C", d.namespace COLLATE "C", d.name COLLATE "C", d.place COLLATE "C";
END $$;

CREATE OR REPLACE FUNCTION mesh.diff(a bigint, b bigint DEFAULT NULL, kinds text[] DEFAULT NULL, namespaces text[] DEFAULT NULL, names text[] DEFAULT NULL)
RETURNS TABLE (api_group text, kind text, namespace text, name text, operation text, path text, before jsonb, after jsonb)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  low  bigint := mesh_internal.known_revision(a);
  high bigint := mesh_internal.known_revision(coalesce(b, mesh.newest_revision()));
BEGIN
  kinds := mesh_internal.kinds_meant(kinds);
  PERFORM mesh_internal.require_moment('revision', a::text), mesh_internal.require_names(kinds, namespaces, names);
  IF low > high THEN
    RETURN QUERY
      SELECT d.api_group, d.kind, d.namespace, d.name, CASE d.operation WHEN 'create' THEN 'delete' WHEN 'delete' THEN 'create' ELSE d.operation END,
        d.path, d.after, d.before
      FROM mesh.diff(high, low, kinds, namespaces, names) d;
    RETURN;
  END IF;
  RETURN QUERY SELECT * FROM mesh_internal.differing_fields(low, high, kinds, namespaces, names);
END $$;

COMMENT ON FUNCTION mesh.diff(bigint, bigint, text[], text[], text[]) IS 'Returns what differs between revision a and revision b, or the newest: a row for each field. A resource that came or went has one row, with an empty path.';

CREATE OR REPLACE FUNCTION mesh.diff(a timestamptz, b timestamptz DEFAULT NULL, kinds text[] DEFAULT NULL, namespaces text[] DEFAULT NULL, names text[] DEFAULT NULL)
RETURNS TABLE (api_group text, kind text, namespace text, name text, operation text, path text, before jsonb, after jsonb)
LANGUAGE sql STABLE AS $$
  SELECT mesh_internal.require_moment('time', a::text);
  SELECT * FROM mesh.diff(mesh_internal.known_revision_at(a), mesh_internal.known_revision_at(b), kinds, namespaces, names)
$$;

COMMENT ON FUNCTION mesh.diff(timestamptz, timestamptz, text[], text[], text[]) IS 'Returns what differs between time a and time b, or now: a row for each field.';

CREATE OR REPLACE FUNCTION mesh.diff(a text, b text DEFAULT NULL, kinds text[] DEFAULT NULL, namespaces text[] DEFAULT NULL, names text[] DEFAULT NULL)
RETURNS TABLE (api_group text, kind text, namespace text, name text, operation text, path text, before jsonb, after jsonb)
LANGUAGE sql STABLE AS $$
  SELECT mesh_internal.require_moment('revision or time', a);
  SELECT * FROM mesh.diff(mesh_internal.revision_meant(a), mesh_internal.revision_meant(b), kinds, namespaces, names)
$$;

COMMENT ON FUNCTION mesh.diff(text, text, text[], text[], text[]) IS 'Returns what differs between a and b, or now, each a revision or a time as people type it: 2026-05-01 12:00, 12:00, yesterday, 10 minutes ago.';

CREATE OR REPLACE FUNCTION mesh.diff_text(a bigint, b bigint DEFAULT NULL, kinds text[] DEFAULT NULL, namespaces text[] DEFAULT NULL, names text[] DEFAULT NULL)
RETURNS TABLE (diff text)
LANGUAGE sql STABLE AS $$
  SELECT line FROM (
    SELECT d.*, row_number() OVER () AS n, lag((d.kind, d.api_group, d.namespace, d.name)) OVER () IS DISTINCT FROM (d.kind, d.api_group, d.namespace, d.name) AS first
    FROM mesh.diff(a, b, kinds, namespaces, names) d) d, LATERAL (VALUES
      (1, CASE WHEN first THEN format('%s %s %s', d.operation, d.kind, concat_ws('/', nullif(d.namespace, ''), d.name)) END),
      (2, CASE WHEN d.path <> '' AND d.before IS NULL THEN format('  + %s: %s', d.path, d.after)
        WHEN d.path <> '' AND d.after IS NULL THEN format('  - %s: %s', d.path, d.before)
        WHEN d.path <> '' THEN format('  ~ %s: %s -> %s', d.path, d.before, d.after) END)) lines (i, line)
  WHERE line IS NOT NULL ORDER BY n, i
$$;

COMMENT ON FUNCTION mesh.diff_text(bigint, bigint, text[], text[], text[]) IS 'Returns what mesh.diff of two revisions returns, as lines for people.';

CREATE OR REPLACE FUNCTION mesh.diff_text(a timestamptz, b timestamptz DEFAULT NULL, kinds text[] DEFAULT NULL, namespaces text[] DEFAULT NULL, names text[] DEFAULT NULL)
RETURNS TABLE (diff text)
LANGUAGE sql STABLE AS $$
  SELECT mesh_internal.require_moment('time', a::text);
  SELECT * FROM mesh.diff_text(mesh_internal.known_revision_at(a), mesh_internal.known_revision_at(b), kinds, namespaces, names)
$$;

COMMENT ON FUNCTION mesh.diff_text(timestamptz, timestamptz, text[], text[], text[]) IS 'Returns what mesh.diff of two times returns, as lines for people.';

CREATE OR REPLACE FUNCTION mesh.diff_text(a text, b text DEFAULT NULL, kinds text[] DEFAULT NULL, namespaces text[] DEFAULT NULL, names text[] DEFAULT NULL)
RETURNS TABLE (diff text)
LANGUAGE sql STABLE AS $$
  SELECT mesh_internal.require_moment('revision or time', a);
  SELECT * FROM mesh.diff_text(mesh_internal.revision_meant(a), mesh_internal.revision_meant(b), kinds, namespaces, names)
$$;

COMMENT ON FUNCTION mesh.diff_text(text, text, text[], text[], text[]) IS 'Returns what mesh.diff of two revisions or times returns, as people type them, as lines for people.';
