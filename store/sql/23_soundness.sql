-- is_sound passes resources that keep all the rules, in one walk through the specs of all of them. It goes only where a spec differs
-- from what it was before. It may fail to pass a resource that is right: one that uses a rare form, such as an alias,
-- a number in quotes or null. Planned by its generous estimates the query would be compiled, for a thousand times its cost.
CREATE OR REPLACE FUNCTION mesh.is_sound(written mesh.changes[]) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET jit = off SET plan_cache_mode = force_generic_plan AS $$
BEGIN
  RETURN NOT EXISTS (
    WITH RECURSIVE walk (value, before, ref, suspect) AS (
      SELECT c.after_spec, c.before_spec, m.ref,
        c.after_labels <> '{}' AND EXISTS (SELECT FROM mesh.check_text_map('metadata.labels', c.after_labels, 'label'))
        OR c.after_annotations <> '{}' AND EXISTS (SELECT FROM mesh.check_text_map('metadata.annotations', c.after_annotations, 'annotation'))
        OR jsonb_typeof(c.after_spec) <> 'object' OR NOT c.after_spec ?& coalesce(m.ref_required, '{}')
        OR coalesce(jsonb_path_match(c.after_spec, m.ref_conflict, about.vars, true), false)
        OR coalesce(jsonb_path_match(c.after_spec, m.ref_tested, about.vars, true), false) AND mesh.breaks_tested(m.ref, c.after_spec, about.vars -> 'meta')
      FROM unnest(written) c
        JOIN mesh.kinds k ON k.kind = c.kind AND k.api_group = c.api_group
        JOIN mesh.schema_members m ON m.type = 'spec' AND m.name = k.type
        CROSS JOIN LATERAL (SELECT jsonb_build_object('meta', mesh.meta(c.namespace, c.name, c.after_labels, c.after_annotations)) AS vars OFFSET 0) about
      WHERE c.after_spec IS NOT NULL
    UNION ALL
      SELECT item.value, item.before, m.ref, s.suspect
      FROM walk w
        CROSS JOIN LATERAL (SELECT key, value, w.before -> key AS before FROM jsonb_each(w.value) OFFSET 0) member
        LEFT JOIN LATERAL (SELECT * FROM mesh.schema_members i WHERE i.type = w.ref AND i.name = member.key OFFSET 0) m ON true
        LEFT JOIN LATERAL (
          SELECT member.value, member.before WHERE m.shape IS NULL OR m.shape = 'single'
          UNION ALL
          SELECT q.value, CASE m.shape WHEN 'list' THEN member.before -> (q.i - 1)::int END
          FROM jsonb_path_query(member.value, m.items) WITH ORDINALITY AS q (value, i) WHERE m.shape <> 'single' OFFSET 0) item ON item.value IS DISTINCT FROM item.before
        CROSS JOIN LATERAL (SELECT
          m.type IS NULL OR m.alias
          OR CASE m.shape
            WHEN 'single' THEN false
            WHEN 'list' THEN jsonb_typeof(member.value) <> 'array' OR jsonb_array_length(member.value) < m.min_items OR jsonb_array_length(member.value) > m.max_items
            WHEN 'map' THEN jsonb_typeof(member.value) <> 'object' OR coalesce(m.min_items, m.max_items) IS NOT NULL
                AND (SELECT count(*) FROM jsonb_object_keys(member.value)) NOT BETWEEN coalesce(m.min_items, 0) AND coalesce(m.max_items, 2147483647)
              OR m.key_format IS NOT NULL AND EXISTS (SELECT FROM jsonb_object_keys(member.value) k
                WHERE (k ~ m.key_syntax AND char_length(k) < 64) IS NOT TRUE AND NOT mesh.has_format(m.key_format, k)) END IS TRUE
          OR item.value IS NOT NULL AND CASE m.value_type
            WHEN 'message' THEN jsonb_typeof(item.value) <> 'object' OR NOT item.value ?& coalesce(m.ref_required, '{}') 
              OR jsonb_path_match(item.value, m.ref_conflict, '{"meta": {}}', true)
              OR coalesce(jsonb_path_match(item.value, m.ref_tested, '{"meta": {}}', true), false) AND mesh.breaks_tested(m.ref, item.value, '{}')
            WHEN 'string' THEN jsonb_typeof(item.value) <> 'string'
              OR char_length(item.value #>> '{}') < m.min_length OR char_length(item.value #>> '{}') > m.max_length OR item.value #>> '{}' !~ m.pattern
              OR (item.value <> '""' OR m.shape <> 'single') AND CASE
                WHEN item.value #>> '{}' ~ m.syntax AND (item.value #>> '{}' ~ m.syntax_not OR char_length(item.value #>> '{}') > m.syntax_max
                    OR char_length(item.value #>> '{}') > 63 AND item.value #>> '{}' ~ m.syntax_long) IS NOT TRUE
                  THEN false
                WHEN m.format IS NOT NULL THEN NOT mesh.has_format(m.format, item.value #>> '{}')
                ELSE m.syntax IS NOT NULL END
            WHEN 'enum' THEN jsonb_typeof(item.value) <> 'string' OR NOT m.allowed @> item.value
            WHEN 'bool' THEN jsonb_typeof(item.value) <> 'boolean'
            WHEN 'duration' THEN jsonb_typeof(item.value) <> 'string'
              OR item.value #>> '{}' !~ '^([0-9]{1,9}(\.[0-9]{1,9})?s|[0-9]{1,9}(\.[0-9]{1,6})?ms|[0-9]{1,8}m|[0-9]{1,6}h)$'
              OR item.value <> '"0s"' AND item.value #>> '{}' !~ '[1-9]'
              OR CASE
                WHEN coalesce(m.shortest, m.longest, m.unit) IS NULL THEN false
                WHEN m.shortest <= 1000000 AND m.longest IS NULL AND (m.unit <= 1000000) IS NOT FALSE
                  AND item.value #>> '{}' ~ '^0{0,8}[1-9][0-9]{0,7}(ms|s|m|h)$' THEN false
                ELSE mesh.nanoseconds(item.value #>> '{}') NOT BETWEEN coalesce(m.shortest, 0) AND coalesce(m.longest, 9223372036854775807)
                  OR mesh.nanoseconds(item.value #>> '{}') % coalesce(m.unit, 1) <> 0 END
            WHEN 'struct' THEN jsonb_typeof(item.value) <> 'object'
            WHEN 'bytes' THEN true
            WHEN 'double' THEN jsonb_typeof(item.value) <> 'number' OR (item.value #>> '{}')::numeric < m.min OR (item.value #>> '{}')::numeric > m.max
            ELSE jsonb_typeof(item.value) <> 'number' OR item.value #>> '{}' !~ '^-?[0-9]+$'
              OR (item.value #>> '{}')::numeric < m.min OR (item.value #>> '{}')::numeric > m.max END IS TRUE AS suspect) s
      WHERE NOT w.suspect AND member.value IS DISTINCT FROM member.before
        AND (m.value_type = 'message' AND item.value IS NOT NULL OR s.suspect) -- in this order, or it would be computed twice
    )
    SELECT FROM walk WHERE suspect);
END $$;

-- check finds what is wrong with a spec, without writing it.
CREATE OR REPLACE FUNCTION mesh.check(kind text, spec jsonb, api_group text DEFAULT NULL) RETURNS TABLE (path text, reason text, hint text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  r mesh.resources;
BEGIN
  r.kind := kind;
  r.api_group := api_group;
  RETURN QUERY SELECT p.* FROM mesh.resolve_kind(r) k, mesh.check_spec(k.type, spec, '{}') p;
END $$;

COMMENT ON FUNCTION mesh.check(text, jsonb, text) IS 'What is wrong with a spec of a kind: nothing is written.';

-- meta is what rules may know of a resource beside its spec. As immutable it would not be inlined.
CREATE OR REPLACE FUNCTION mesh.meta(namespace text, name text, labels jsonb, annotations jsonb) RETURNS jsonb
LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object('namespace', namespace, 'name', name, 'labels', labels, 'annotations', annotations)
$$;
