-- The table of types and fields that specs are made of, as data: filled from the programs' own at the end of a migration.

-- derive_schema_members fills it, after schema_types, schema_fields and formats were filled.
CREATE OR REPLACE FUNCTION mesh.derive_schema_members() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  DELETE FROM mesh.schema_members;
  WITH required AS (
    SELECT type, array_agg(name ORDER BY position) AS names FROM mesh.schema_fields WHERE required GROUP BY type
  ), pair AS (
    SELECT t.type, string_agg(format('exists($."%s") && exists($."%s")', a.name, b.name), ' || ') AS predicate
    FROM mesh.schema_types t, jsonb_array_elements(t.oneofs) oneof,
      jsonb_array_elements_text(oneof) WITH ORDINALITY a (name, i), jsonb_array_elements_text(oneof) WITH ORDINALITY b (name, i)
    WHERE a.i < b.i GROUP BY t.type
  ), suspect AS (
    SELECT t.type, nullif(concat_ws(' || ', p.predicate, t.broken::text), '')::jsonpath AS predicate, t.tested
    FROM mesh.schema_types t LEFT JOIN pair p ON p.type = t.type
    WHERE p.predicate IS NOT NULL OR t.broken IS NOT NULL OR t.tested IS NOT NULL
  ), member AS (
    SELECT f.type, f.position, spelling AS name, spelling <> f.name AS alias, f.shape, f.value_type, f.ref
    FROM mesh.schema_fields f, unnest(f.names) spelling
    UNION ALL
    SELECT 'spec', 0, k.type, false, 'single', 'message', k.type FROM (SELECT DISTINCT type FROM mesh.kinds WHERE type IS NOT NULL) k
  )
  INSERT INTO mesh.schema_members (type, name, alias, shape, items, value_type, min_items, max_items, allowed, min, max,
    min_length, max_length, pattern, shortest, longest, unit, syntax, syntax_not, syntax_long, syntax_max, format, key_format, key_syntax, ref, ref_required, ref_conflict, ref_tested)
  SELECT m.type, m.name, m.alias, m.shape, CASE m.shape WHEN 'list' THEN '$[*]' WHEN 'map' THEN '$.*' ELSE '$' END::jsonpath,
    m.value_type, f.min_items, f.max_items, to_jsonb(f.enum), f.min, f.max, f.min_length, f.max_length, f.pattern,
    mesh.nanoseconds(f.min_duration), mesh.nanoseconds(f.max_duration), mesh.nanoseconds(f.precision),
    CASE WHEN x.function IS NULL THEN x.pattern END, x.unlike, x.long, x.max, CASE WHEN coalesce(x.function, x.other) IS NOT NULL THEN x.name END, f.key_format, CASE WHEN y.function IS NULL AND y.unlike IS NULL AND (y.max < 64) IS NOT TRUE THEN y.pattern END,
    m.ref, r.names, s.predicate, s.tested
  FROM member m
    LEFT JOIN mesh.schema_fields f ON f.type = m.type AND f.position = m.position
    LEFT JOIN mesh.formats x ON x.name = f.format
    LEFT JOIN mesh.formats y ON y.name = f.key_format
    LEFT JOIN required r ON r.type = m.ref
    LEFT JOIN suspect s ON s.type = m.ref;
  -- The quick check is planned soon after, and must not be planned for tables of unknown size.
  ANALYZE mesh.kinds, mesh.schema_types, mesh.schema_fields, mesh.schema_members, mesh.formats, mesh.rules;
END $$;
