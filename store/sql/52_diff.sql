-- What differs between two revisions, a row a field.

-- aligned pairs the places of two lists: what both begin and end with stays together, so that an item that was put in or taken
-- out moves nothing else, and what is between is paired in order. One of the two is NULL where an item has no counterpart.
CREATE OR REPLACE FUNCTION mesh.aligned(before jsonb, after jsonb) RETURNS TABLE (before_at int, after_at int)
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  n    int := jsonb_array_length(before);
  m    int := jsonb_array_length(after);
  head int := 0;
  tail int := 0;
BEGIN
  WHILE head < least(n, m) AND before -> head = after -> head LOOP
    head := head + 1;
  END LOOP;
  WHILE tail < least(n, m) - head AND before -> (n - 1 - tail) = after -> (m - 1 - tail) LOOP
    tail := tail + 1;
  END LOOP;
  RETURN QUERY
    SELECT CASE WHEN i < n - tail THEN i END, CASE WHEN i < m - tail THEN i END FROM generate_series(0, greatest(n, m) - tail - 1) i
    UNION ALL SELECT n - tail + i, m - tail + i FROM generate_series(0, tail - 1) i;
END $$;

-- differing_fields walks two values side by side. A path has the place of an item in the later list, or in the earlier one if the
-- item is gone.
CREATE OR REPLACE FUNCTION mesh.differing_fields(at text, was jsonb, became jsonb) RETURNS TABLE (path text, before jsonb, after jsonb)
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF was IS NOT DISTINCT FROM became THEN
    RETURN;
  ELSIF jsonb_typeof(was) = 'object' AND jsonb_typeof(became) = 'object' THEN
    RETURN QUERY SELECT d.path, d.before, d.after FROM jsonb_each(was) b FULL JOIN jsonb_each(became) a USING (key),
      mesh.differing_fields(mesh.member_path(at, key), b.value, a.value) WITH ORDINALITY d (path, before, after, i) ORDER BY key COLLATE "C", i;
  ELSIF jsonb_typeof(was) = 'array' AND jsonb_typeof(became) = 'array' THEN
    RETURN QUERY SELECT d.path, d.before, d.after FROM mesh.aligned(was, became) p,
      mesh.differing_fields(format('%s[%s]', at, coalesce(p.after_at, p.before_at)), was -> p.before_at, became -> p.after_at)
        WITH ORDINALITY d (path, before, after, i) ORDER BY coalesce(p.after_at, p.before_at), p.after_at, i;
  ELSE
    RETURN QUERY SELECT at, was, became;
  END IF;
END $$;

-- differing_resources has what differs between two revisions, the earlier first: from the first and the last change of each resource.
CREATE OR REPLACE FUNCTION mesh.differing_resources(low bigint, high bigint, kinds text[], namespaces text[], names text[]) RETURNS TABLE (
  api_group text, kind text, namespace text, name text,
  before_spec jsonb, before_labels jsonb, before_annotations jsonb, after_spec jsonb, after_labels jsonb, after_annotations jsonb)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan SET jit = off AS $$
#variable_conflict use_column
DECLARE
  among text[] := mesh.readable_among(namespaces);
BEGIN
  RETURN QUERY
    SELECT f.api_group, f.kind, f.namespace, f.name,
      f.before_spec, f.before_labels, f.before_annotations, l.after_spec, l.after_labels, l.after_annotations
    FROM (
        SELECT c.kind, c.api_group, c.namespace, c.name,
          (array_agg(t.id ORDER BY t.revision))[1] AS first, (array_agg(t.id ORDER BY t.revision DESC))[1] AS last
        FROM mesh.transactions t JOIN mesh.changes c ON c.transaction_id = t.id
        WHERE t.revision > low AND t.revision <= high
          AND (kinds IS NULL OR c.kind = ANY (kinds)) AND (among IS NULL OR c.namespace = ANY (among)) AND (names IS NULL OR c.name = ANY (names))
        GROUP BY c.kind, c.api_group, c.namespace, c.name) e
      JOIN mesh.changes f ON f.transaction_id = e.first AND f.kind = e.kind AND f.api_group = e.api_group AND f.namespace = e.namespace AND f.name = e.name
      JOIN mesh.changes l ON l.transaction_id = e.last AND l.kind = e.kind AND l.api_group = e.api_group AND l.namespace = e.namespace AND l.name = e.name
    WHERE (f.before_spec, f.before_labels, f.before_annotations) IS DISTINCT FROM (l.after_spec, l.after_labels, l.after_annotations);
END $$;

CREATE OR REPLACE FUNCTION mesh.diff(a bigint, b bigint DEFAULT NULL, kinds text[] DEFAULT NULL, namespaces text[] DEFAULT NULL, names text[] DEFAULT NULL)
RETURNS TABLE (api_group text, kind text, namespace text, name text, operation text, path text, before jsonb, after jsonb)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
  low  bigint := mesh.known_revision(a);
  high bigint := mesh.known_revision(coalesce(b, mesh.newest_revision()));
BEGIN
  PERFORM mesh.require_kinds(kinds);
  IF low > high THEN
    RETURN QUERY
      SELECT d.api_group, d.kind, d.namespace, d.name, CASE d.operation WHEN 'create' THEN 'delete' WHEN 'delete' THEN 'create' ELSE d.operation END,
        d.path, d.after, d.before
      FROM mesh.diff(high, low, kinds, namespaces, names) d;
    RETURN;
  END IF;
  RETURN QUERY
    SELECT d.api_group, d.kind, d.namespace, d.name, mesh.operation(d.before_spec, d.after_spec), f.path, f.before, f.after
    FROM mesh.differing_resources(low, high, kinds, namespaces, names) d, LATERAL (
      SELECT 0 AS part, 0::bigint AS i, '' AS path, mesh.as_document(d.before_labels, d.before_annotations, d.before_spec) AS before,
        mesh.as_document(d.after_labels, d.after_annotations, d.after_spec) AS after
      WHERE d.before_spec IS NULL OR d.after_spec IS NULL
      UNION ALL
      SELECT part.n, w.i, w.path, w.before, w.after
      FROM (VALUES (1, 'metadata.labels', d.before_labels, d.after_labels), (2, 'metadata.annotations', d.before_annotations, d.after_annotations),
          (3, 'spec', d.before_spec, d.after_spec)) part (n, path, before, after),
        mesh.differing_fields(part.path, part.before, part.after) WITH ORDINALITY w (path, before, after, i)
      WHERE d.before_spec IS NOT NULL AND d.after_spec IS NOT NULL) f
    ORDER BY d.kind COLLATE "C", d.api_group COLLATE "C", d.namespace COLLATE "C", d.name COLLATE "C", f.part, f.i;
END $$;

COMMENT ON FUNCTION mesh.diff(bigint, bigint, text[], text[], text[]) IS 'What differs at revision b, or the newest, from how it was at revision a: a row a field. A resource that came or went has one row, with an empty path.';

CREATE OR REPLACE FUNCTION mesh.diff(a timestamptz, b timestamptz DEFAULT NULL, kinds text[] DEFAULT NULL, namespaces text[] DEFAULT NULL, names text[] DEFAULT NULL)
RETURNS TABLE (api_group text, kind text, namespace text, name text, operation text, path text, before jsonb, after jsonb)
LANGUAGE sql STABLE AS $$
  SELECT * FROM mesh.diff(mesh.revision_at(a), mesh.revision_at(b), kinds, namespaces, names)
$$;

COMMENT ON FUNCTION mesh.diff(timestamptz, timestamptz, text[], text[], text[]) IS 'What differs at time b, or now, from how it was at time a.';

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

COMMENT ON FUNCTION mesh.diff_text IS 'What mesh.diff tells, as lines for people.';
