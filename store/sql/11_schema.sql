-- The table of types and fields that specs are made of, as data: filled from the programs' own at the end of a migration.

-- derive_schema_members fills it, after schema_types and schema_fields were filled.
CREATE OR REPLACE FUNCTION mesh.derive_schema_members() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  DELETE FROM mesh.schema_members;
  WITH required AS (
    SELECT type, array_agg(name ORDER BY position) AS names FROM mesh.schema_fields WHERE required GROUP BY type
  ), pair AS (
    SELECT t.type, string_agg(format('exists($."%s") && exists($."%s")', a.name, b.name), ' || ')::jsonpath AS predicate
    FROM mesh.schema_types t, jsonb_array_elements(t.oneofs) oneof,
      jsonb_array_elements_text(oneof) WITH ORDINALITY a (name, i), jsonb_array_elements_text(oneof) WITH ORDINALITY b (name, i)
    WHERE a.i < b.i GROUP BY t.type
  )
  INSERT INTO mesh.schema_members
  SELECT f.type, spelling, spelling <> f.name, f.shape,
    CASE f.shape WHEN 'list' THEN '$[*]' WHEN 'map' THEN '$.*' ELSE '$' END::jsonpath,
    f.value_type, f.min_items, f.max_items, to_jsonb(f.enum), f.min, f.max, f.min_length, f.max_length, f.pattern,
    f.ref, r.names, p.predicate
  FROM mesh.schema_fields f CROSS JOIN unnest(f.names) spelling
    LEFT JOIN required r ON r.type = f.ref LEFT JOIN pair p ON p.type = f.ref
  UNION ALL
  SELECT 'spec', k.type, false, 'single', '$'::jsonpath, 'message', NULL::int, NULL::int, NULL::jsonb, NULL::numeric, NULL::numeric,
    NULL::int, NULL::int, NULL::text, k.type, r.names, p.predicate
  FROM (SELECT DISTINCT type FROM mesh.kinds WHERE type IS NOT NULL) k
    LEFT JOIN required r ON r.type = k.type LEFT JOIN pair p ON p.type = k.type;
  -- The quick check is planned soon after, and must not be planned for tables of unknown size.
  ANALYZE mesh.kinds, mesh.schema_types, mesh.schema_fields, mesh.schema_members;
END $$;
