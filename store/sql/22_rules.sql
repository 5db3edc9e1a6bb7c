-- The rules beyond types and fields. They judge the normal form of a spec that is structurally
-- right, with the same words as the programs (package kinds/schema).

-- normal_value returns a value of a field in its normal form.
CREATE OR REPLACE FUNCTION mesh_internal.normal_value(f mesh.schema_fields, v jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  written text := v #>> '{}';
BEGIN
  CASE
  WHEN f.value_type = 'message' THEN
    RETURN mesh_internal.normal_object(f.ref, v);
  WHEN f.value_type = 'duration' THEN
    RETURN to_jsonb(mesh_internal.duration_text(mesh_internal.nanoseconds(written)));
  WHEN f.value_type = 'enum' AND jsonb_typeof(v) = 'number' THEN
    RETURN to_jsonb(f.enum[array_position(f.numbers, written::numeric::int)]);
  WHEN f.value_type IN ('struct', 'bool', 'string', 'enum', 'bytes') THEN
    RETURN v;
  WHEN f.value_type = 'double' THEN
    RETURN to_jsonb(written::numeric);
  ELSE
    RETURN to_jsonb(trunc(written::numeric));
  END CASE;
END $$;

-- duration_text writes seconds with zero, three, six or nine decimals.
CREATE OR REPLACE FUNCTION mesh_internal.duration_text(nanoseconds numeric) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT regexp_replace(to_char(trunc(nanoseconds) / 1000000000, 'FM9999999990.000000000'), '\.?(000)*$', '') || 's'
$$;

CREATE OR REPLACE FUNCTION mesh_internal.normal_items(f mesh.schema_fields, v jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  CASE f.shape
  WHEN 'list' THEN
    RETURN coalesce((SELECT jsonb_agg(mesh_internal.normal_value(f, value) ORDER BY i) FROM jsonb_array_elements(v) WITH ORDINALITY AS item (value, i)), '[]');
  WHEN 'map' THEN
    RETURN coalesce((SELECT jsonb_object_agg(key, mesh_internal.normal_value(f, value)) FROM jsonb_each(v)), '{}');
  ELSE
    RETURN mesh_internal.normal_value(f, v);
  END CASE;
END $$;

-- normal_object returns an object of a type in its normal form: proper names and values, and no
-- nulls.
CREATE OR REPLACE FUNCTION mesh_internal.normal_object(of text, v jsonb) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(jsonb_object_agg(f.name, mesh_internal.normal_items(f, v -> spelling)), '{}')
  FROM mesh.schema_fields f,
    LATERAL (SELECT n FROM unnest(f.names) WITH ORDINALITY AS u (n, i) WHERE jsonb_typeof(v -> n) <> 'null' ORDER BY i LIMIT 1) AS s (spelling)
  WHERE f.type = of
$$;

-- rule_items returns what a rule with each is about, in order: each item, and what the rule may
-- know of it.
CREATE OR REPLACE FUNCTION mesh_internal.rule_items(steps jsonb, path text, v jsonb, parent jsonb DEFAULT '{}', key text DEFAULT '', i bigint DEFAULT 0)
RETURNS TABLE (item_path text, item jsonb, item_parent jsonb, item_key text, item_i bigint)
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  field text  := steps -> 0 ->> 'field';
  value jsonb := CASE WHEN jsonb_typeof(v) = 'object' THEN v -> field END;
  at    text  := mesh_internal.member_path(path, field);
  rest  jsonb := steps - 0;
BEGIN
  CASE
  WHEN steps = '[]' THEN
    RETURN QUERY SELECT path, v, parent, key, i;
  WHEN value IS NULL THEN
    RETURN;
  WHEN rest = '[]' AND steps -> 0 ->> 'shape' = 'list' THEN -- without a call for each item
    RETURN QUERY SELECT format('%s[%s]', at, e.n - 1), e.value, v, key, e.n - 1
      FROM jsonb_array_elements(CASE jsonb_typeof(value) WHEN 'array' THEN value ELSE '[]' END) WITH ORDINALITY AS e (value, n) ORDER BY e.n;
  WHEN steps -> 0 ->> 'shape' = 'list' THEN
    RETURN QUERY SELECT r.* FROM jsonb_array_elements(CASE jsonb_typeof(value) WHEN 'array' THEN value ELSE '[]' END) WITH ORDINALITY AS e (value, n),
      mesh_internal.rule_items(rest, format('%s[%s]', at, e.n - 1), e.value, v, key, e.n - 1) r ORDER BY e.n;
  WHEN steps -> 0 ->> 'shape' = 'map' THEN
    RETURN QUERY SELECT r.* FROM (
        SELECT m.key, m.value, row_number() OVER (ORDER BY m.key COLLATE "C") AS n
        FROM jsonb_each(CASE jsonb_typeof(value) WHEN 'object' THEN value ELSE '{}' END) m) e,
      mesh_internal.rule_items(rest, mesh_internal.member_path(at, e.key), e.value, v, e.key, e.n - 1) r ORDER BY e.n;
  ELSE
    RETURN QUERY SELECT r.* FROM mesh_internal.rule_items(rest, at, value, v, key, i) r;
  END CASE;
END $$;

-- fill inserts values into a text: {x} is a member of the object, {item.x} is one of a variable.
CREATE OR REPLACE FUNCTION mesh_internal.fill(template text, v jsonb, variables jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  filled text := '';
  rest   text := template;
  match  text;
  names  text[];
  value  jsonb;
BEGIN
  IF strpos(template, '{') = 0 THEN
    RETURN template;
  END IF;
  LOOP
    match := substring(rest FROM '\{[A-Za-z][A-Za-z0-9]*(?:\.[A-Za-z0-9]+)*\}');
    EXIT WHEN match IS NULL;
    names := string_to_array(btrim(match, '{}'), '.');
    value := CASE WHEN variables ? names[1] THEN variables ELSE v END #> names;
    filled := filled || left(rest, strpos(rest, match) - 1) || CASE WHEN jsonb_typeof(value) IN ('string', 'number', 'boolean') THEN value #>> '{}' ELSE '' END;
    rest := substr(rest, strpos(rest, match) + length(match));
  END LOOP;
  RETURN filled || rest;
END $$;

CREATE OR REPLACE FUNCTION mesh_internal.join_path(path text, below text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN left(below, 1) = '/' THEN substr(below, 2) WHEN below = '' OR left(below, 1) = '[' THEN path || below WHEN path = '' THEN below ELSE path || '.' || below END
$$;

-- rule_wrongs returns the items of an object that break a rule.
CREATE OR REPLACE FUNCTION mesh_internal.rule_wrongs(r mesh.rules, path text, v jsonb, meta jsonb) RETURNS TABLE (item_path text, variables jsonb)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF r.differs IS NULL THEN
    RETURN QUERY SELECT e.item_path, e.variables
      FROM (SELECT i.item_path, jsonb_build_object('item', item, 'parent', item_parent, 'key', item_key, 'i', item_i, 'meta', meta) AS variables
        FROM mesh_internal.rule_items(r.steps, path, v) i) e
      WHERE jsonb_path_match(v, r.wrong, e.variables, true);
    RETURN;
  END IF;
  RETURN QUERY SELECT e.item_path, e.variables
    FROM (SELECT w.item_path, w.n, w.variables,
        row_number() OVER (PARTITION BY w.list, w.value ORDER BY w.n) AS nth
      FROM (SELECT i.item_path, i.n,
          count(*) FILTER (WHERE i.item_i = 0) OVER (ORDER BY i.n) AS list,
          jsonb_build_object('item', item, 'parent', item_parent, 'key', item_key, 'i', item_i, 'meta', meta) AS variables,
          CASE r.differs WHEN '' THEN i.item ELSE i.item -> r.differs END AS value
        FROM mesh_internal.rule_items(r.steps, path, v) WITH ORDINALITY AS i (item_path, item, item_parent, item_key, item_i, n)) w
      WHERE jsonb_typeof(w.value) IN ('string', 'number', 'boolean')) e
    WHERE e.nth > 1 ORDER BY e.n;
END $$;

-- applies reports whether a rule is about an object.
CREATE OR REPLACE FUNCTION mesh_internal.applies(r mesh.rules, v jsonb, meta jsonb) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT r.applies IS NULL OR coalesce(jsonb_path_match(v, r.applies, jsonb_build_object('meta', meta), true), false)
$$;

-- check_rules returns the rules that an object, or anything below it, breaks.
CREATE OR REPLACE FUNCTION mesh_internal.check_rules(of text, path text, v jsonb, meta jsonb) RETURNS SETOF mesh_internal.problem
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  r mesh.rules;
  f mesh.schema_fields;
BEGIN
  FOR r IN SELECT * FROM mesh.rules x WHERE x.type = of ORDER BY x.position LOOP
    CONTINUE WHEN NOT mesh_internal.applies(r, v, meta);
    IF r.test IS NOT NULL THEN
      RETURN QUERY SELECT mesh_internal.join_path(check_rules.path, p.path), p.reason, p.hint FROM mesh_internal.test_rule(r.test, v, meta) p;
    ELSE
      RETURN QUERY SELECT mesh_internal.join_path(w.item_path, mesh_internal.fill(r.at, v, w.variables)), mesh_internal.fill(r.reason, v, w.variables), mesh_internal.fill(r.hint, v, w.variables)
        FROM mesh_internal.rule_wrongs(r, path, v, meta) w;
    END IF;
  END LOOP;
  FOR f IN SELECT * FROM mesh.schema_fields s WHERE s.type = of AND s.value_type = 'message' AND v ? s.name ORDER BY s.position LOOP
    RETURN QUERY SELECT p.* FROM mesh_internal.rule_items(jsonb_build_array(jsonb_build_object('field', f.name, 'shape', f.shape)), path, v) WITH ORDINALITY AS i (item_path, item, item_parent, item_key, item_i, n),
      mesh_internal.check_rules(f.ref, i.item_path, i.item, '{}') p; -- what is below the root may be in resources of several kinds
  END LOOP;
END $$;

-- breaks_tested reports whether an object breaks a rule of its type that is not in the one
-- predicate, or has structural faults that such rules stumble over. The quick check asks before it
-- has looked into the object.
CREATE OR REPLACE FUNCTION mesh_internal.breaks_tested(of text, v jsonb, meta jsonb) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  r mesh.rules;
BEGIN
  FOR r IN SELECT * FROM mesh.rules x WHERE x.type = of AND NOT x.quick LOOP
    CONTINUE WHEN NOT mesh_internal.applies(r, v, meta);
    IF r.test IS NOT NULL AND EXISTS (SELECT FROM mesh_internal.test_rule(r.test, v, meta))
      OR r.test IS NULL AND EXISTS (SELECT FROM mesh_internal.rule_wrongs(r, '', v, meta)) THEN
      RETURN true;
    END IF;
  END LOOP;
  RETURN false;
EXCEPTION WHEN data_exception THEN
  RETURN true;
END $$;

-- check_spec returns everything that is wrong with a spec: structural faults, or else broken rules.
CREATE OR REPLACE FUNCTION mesh_internal.check_spec(of text, spec jsonb, meta jsonb) RETURNS SETOF mesh_internal.problem
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN QUERY SELECT * FROM mesh_internal.check_object(of, 'spec', spec);
  IF NOT FOUND THEN
    RETURN QUERY SELECT * FROM mesh_internal.check_rules(of, 'spec', mesh_internal.normal_object(of, spec), meta);
  END IF;
END $$;
