-- is_sound passes resources that keep all rules. It looks only where a spec differs from before,
-- and asks as little as it can: one predicate about everything new. It may fail to pass a right
-- resource that uses a rare form, such as an alias, a number in quotes or null.
CREATE OR REPLACE FUNCTION mesh_internal.is_sound(written mesh_internal.changes[]) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  c    mesh_internal.changes;
  last mesh_internal.changes;
  of   text;
BEGIN
  FOREACH c IN ARRAY coalesce(written, '{}') LOOP
    CONTINUE WHEN c.after_spec IS NULL;
    IF c.kind IS DISTINCT FROM last.kind OR c.api_group IS DISTINCT FROM last.api_group THEN
      last.kind := c.kind;
      last.api_group := c.api_group;
      of := (SELECT k.type FROM mesh.kinds k WHERE k.kind = c.kind AND k.api_group = c.api_group);
    END IF;
    CONTINUE WHEN of IS NULL;
    IF c.after_labels <> '{}' AND EXISTS (SELECT FROM mesh_internal.check_text_map('metadata.labels', c.after_labels, 'label'))
      OR c.after_annotations <> '{}' AND EXISTS (SELECT FROM mesh_internal.check_text_map('metadata.annotations', c.after_annotations, 'annotation')) THEN
      RETURN false;
    END IF;
    IF NOT mesh_internal.is_sound_object(of, c.after_spec #> '{}', c.before_spec #> '{}', -- which unpacks them, once
      jsonb_build_object('meta', jsonb_build_object('namespace', c.namespace, 'name', c.name, 'labels', c.after_labels, 'annotations', c.after_annotations))) THEN
      RETURN false;
    END IF;
  END LOOP;
  RETURN true;
END $$;

-- is_sound_object passes an object of a type with everything below it. If there was another before,
-- it looks only at the differences. To see that two values have the same bytes is much faster than
-- to see that they are equal.
CREATE OR REPLACE FUNCTION mesh_internal.is_sound_object(of text, v jsonb, before jsonb, about jsonb) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
DECLARE
  known      text[];
  own_values jsonpath;
  own_parts  jsonpath;
  tested     jsonpath;
  parts      text[];
  types      text[];
  shapes     text[];
  part       jsonb;
  was        jsonb;
  item       jsonb;
  shift      int;
  member     text;
BEGIN
  SELECT t.fields, t.own_values, t.own_parts, t.tested, t.parts, t.part_types, t.part_shapes INTO known, own_values, own_parts, tested, parts, types, shapes
    FROM mesh_internal.schema_types t WHERE t.type = of;
  IF jsonb_typeof(before) <> 'object' THEN
    before := NULL;
  END IF;
  IF jsonb_typeof(v) <> 'object' OR v - known <> '{}' THEN
    RETURN false;
  ELSIF tested IS NOT NULL AND jsonb_path_match(v, tested, about, true) AND mesh_internal.breaks_tested(of, v, about -> 'meta') THEN
    RETURN false;
  ELSIF (own_parts IS NOT NULL AND jsonb_path_match(v, own_parts, about, true) IS NOT TRUE
      OR own_values IS NOT NULL AND NOT record_image_eq(ROW (v - parts), ROW (before - parts)) AND jsonb_path_match(v, own_values, about, true) IS NOT TRUE)
    AND NOT mesh_internal.is_sound_level(of, v, about) THEN
    RETURN false;
  END IF;
  IF before IS NULL THEN
    RETURN parts = '{}' OR mesh_internal.are_sound_parts(of, v);
  END IF;
  FOR i IN 1 .. cardinality(parts) LOOP
    part := v -> parts[i];
    CONTINUE WHEN part IS NULL;
    was := before -> parts[i];
    CASE shapes[i]
    WHEN 'single' THEN
      IF NOT record_image_eq(ROW (part), ROW (was)) AND NOT mesh_internal.is_sound_object(types[i], part, was, '{"meta": {}}') THEN
        RETURN false;
      END IF;
    WHEN 'list' THEN
      shift := CASE jsonb_typeof(was) WHEN 'array' THEN jsonb_array_length(was) - jsonb_array_length(part) END;
      FOR j IN 0 .. jsonb_array_length(part) - 1 LOOP
        item := part -> j;
        CONTINUE WHEN record_image_eq(ROW (item), ROW (was -> j)) OR shift <> 0 AND item = was -> (j + shift); -- it may have moved
        IF NOT mesh_internal.is_sound_object(types[i], item, CASE shift WHEN 0 THEN was -> j END, '{"meta": {}}') THEN
          RETURN false;
        END IF;
      END LOOP;
    WHEN 'map' THEN
      FOR member, item IN SELECT key, value FROM jsonb_each(part) LOOP
        IF NOT record_image_eq(ROW (item), ROW (was -> member)) AND NOT mesh_internal.is_sound_object(types[i], item, was -> member, '{"meta": {}}') THEN
          RETURN false;
        END IF;
      END LOOP;
    END CASE;
  END LOOP;
  RETURN true;
END $$;

-- are_sound_parts passes everything below an object, in one query. By its generous estimates
-- Postgres would compile that query, at a thousand times its cost.
CREATE OR REPLACE FUNCTION mesh_internal.are_sound_parts(of text, v jsonb) RETURNS boolean
LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan AS $$
BEGIN
  RETURN NOT EXISTS (
    SELECT FROM (SELECT p.part, jsonb_path_query(v, p.path) AS value FROM mesh_internal.schema_parts p WHERE p.type = of OFFSET 0) x,
      LATERAL (SELECT t.fields, t.own_values, t.own_parts, t.tested FROM mesh_internal.schema_types t WHERE t.type = x.part OFFSET 0) t
    WHERE CASE
      WHEN jsonb_typeof(x.value) <> 'object' OR x.value - t.fields <> '{}' THEN true
      WHEN t.tested IS NOT NULL AND jsonb_path_match(x.value, t.tested, '{"meta": {}}', true) AND mesh_internal.breaks_tested(x.part, x.value, '{}') THEN true
      ELSE (t.own_parts IS NOT NULL AND jsonb_path_match(x.value, t.own_parts, '{"meta": {}}', true) IS NOT TRUE
          OR t.own_values IS NOT NULL AND jsonb_path_match(x.value, t.own_values, '{"meta": {}}', true) IS NOT TRUE)
        AND NOT mesh_internal.is_sound_level(x.part, x.value, '{"meta": {}}') END);
END $$;

-- is_sound_level looks closer at an object, but not below it, where a predicate cannot tell: it
-- judges each field exactly.
CREATE OR REPLACE FUNCTION mesh_internal.is_sound_level(of text, v jsonb, about jsonb) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
DECLARE
  f mesh.schema_fields;
BEGIN
  IF (SELECT jsonb_path_match(v, t.broken, about, true) FROM mesh_internal.schema_types t WHERE t.type = of) THEN
    RETURN false;
  END IF;
  FOR f IN SELECT * FROM mesh.schema_fields s WHERE s.type = of AND v ? s.name LOOP
    IF f.value_type = 'message' THEN
      f.value_type := 'struct'; -- an object, whatever is in it
    END IF;
    IF NOT mesh_internal.is_plain(f, v -> f.name)
      OR f.shape = 'single' AND EXISTS (SELECT FROM mesh_internal.check_single(f, '', v -> f.name))
      OR f.shape <> 'single' AND EXISTS (SELECT FROM mesh_internal.check_items(f, '', v -> f.name)) THEN
      RETURN false;
    END IF;
  END LOOP;
  RETURN true;
END $$;

-- is_plain reports whether rules can judge the values of a field as they are, without their normal
-- form.
CREATE OR REPLACE FUNCTION mesh_internal.is_plain(f mesh.schema_fields, v jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(bool_and(CASE
    WHEN f.value_type IN ('string', 'enum', 'bytes') THEN jsonb_typeof(value) = 'string'
    WHEN f.value_type IN ('int32', 'int64', 'uint32', 'uint64', 'double') THEN jsonb_typeof(value) = 'number'
    WHEN f.value_type = 'duration' THEN jsonb_typeof(value) = 'string' AND (value = '"0s"' OR value #>> '{}' ~ '^[0-9.]*[1-9][0-9.]*(ms|s|m|h)$')
    ELSE true END), true)
  FROM jsonb_path_query(v, CASE f.shape WHEN 'list' THEN '$[*]'::jsonpath WHEN 'map' THEN '$.*' ELSE '$' END) value
$$;

-- check returns what is wrong with a spec, and writes nothing.
CREATE OR REPLACE FUNCTION mesh.check(kind text, spec jsonb, api_group text DEFAULT NULL) RETURNS TABLE (path text, reason text, hint text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN QUERY SELECT p.* FROM mesh_internal.meant_kind("check".kind, "check".api_group) k, mesh_internal.check_spec(k.type, spec, '{}') p;
END $$;

COMMENT ON FUNCTION mesh.check(text, jsonb, text) IS 'Returns what is wrong with a spec of a kind. Writes nothing.';

-- meta returns what rules may know of a resource besides its spec. If it were immutable, Postgres
-- would not inline it.
CREATE OR REPLACE FUNCTION mesh_internal.meta(namespace text, name text, labels jsonb, annotations jsonb) RETURNS jsonb
LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object('namespace', namespace, 'name', name, 'labels', labels, 'annotations', annotations)
$$;
