-- The structure of a spec is checked when it is written. A quick check passes what is sound. What
-- it does not pass is checked again by the rules of the programs (package kinds/schema), exactly,
-- which say what is wrong, or find nothing after all.

-- in_one_sentence joins what is wrong, the first of some number of things, for a driver that shows
-- the message alone.
CREATE OR REPLACE FUNCTION mesh_internal.in_one_sentence(reasons text[], number int) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT reasons[1] || CASE WHEN number > 1 THEN format('; and %s more: ', number - 1) || array_to_string(reasons[2:], '; ') || CASE WHEN number > cardinality(reasons) THEN '; …' ELSE '' END ELSE '' END
$$;

-- refuse raises what is wrong with a resource in the form of all refusals: MESSAGE has all problems
-- for people, HINT what to do about the first, and DETAIL has all of them as JSON for programs. What
-- is wrong with a row is a violation of a constraint, as of any table, by the name that CONSTRAINT
-- has: the codes of the project's own are for what no other table would refuse.
CREATE OR REPLACE FUNCTION mesh_internal.refuse(code text, kind text, namespace text, name text, problems mesh_internal.problem[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  resource text := concat_ws(' ', kind, nullif(concat_ws('/', nullif(namespace, ''), name), ''));
  words    text[] := ARRAY(SELECT concat_ws(': ', nullif(p.path, ''), p.reason) || CASE WHEN i > 1 AND p.hint LIKE 'did you mean%' THEN format(' (%s)', p.hint) ELSE '' END
    FROM unnest(problems) WITH ORDINALITY AS p (path, reason, hint, i) ORDER BY i);
  all_json text := (SELECT jsonb_agg(jsonb_strip_nulls(jsonb_build_object('kind', kind, 'namespace', nullif(namespace, ''), 'name', name,
    'path', nullif(p.path, ''), 'reason', p.reason, 'hint', p.hint)) ORDER BY i) FROM unnest(problems) WITH ORDINALITY AS p (path, reason, hint, i));
  summary  text := concat_ws(': ', nullif(resource, ''), mesh_internal.in_one_sentence(words, cardinality(words)));
  broken   text := CASE WHEN code = 'MS002' THEN 'kind_is_known' WHEN code = '23514' AND kind = 'Secret' THEN 'secret_is_valid' WHEN code = '23514' THEN 'resource_is_valid' ELSE '' END;
BEGIN
  IF code = 'MS002' AND pg_trigger_depth() > 0 THEN -- a row of that kind, and not a question about it
    code := '23514';
  END IF;
  IF problems[1].hint IS NULL THEN -- an empty HINT would be shown as one
    RAISE EXCEPTION USING ERRCODE = code, MESSAGE = summary, DETAIL = all_json, CONSTRAINT = broken;
  END IF;
  RAISE EXCEPTION USING ERRCODE = code, MESSAGE = summary, DETAIL = all_json, HINT = problems[1].hint, CONSTRAINT = broken;
END $$;

CREATE OR REPLACE FUNCTION mesh_internal.refuse(code text, kind text, namespace text, name text, path text, reason text, hint text) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT mesh_internal.refuse(code, kind, namespace, name, ARRAY[(path, reason, hint)::mesh_internal.problem])
$$;

-- is_name reports whether a resource may have this name. Kubernetes takes only lower-case names;
-- files and other servers take any.
CREATE OR REPLACE FUNCTION mesh_internal.is_name(name text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
  SELECT char_length(name) <= 253 AND name ~ '^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$'
$$;

CREATE OR REPLACE FUNCTION mesh_internal.name_hint() RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT 'at most 253 letters, digits, "-", "_" and ".", the first and the last a letter or digit' $$;

CREATE OR REPLACE FUNCTION mesh_internal.member_path(path text, name text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN name !~ '^[A-Za-z_][A-Za-z0-9_-]*$' THEN path || '["' || name || '"]' WHEN path = '' THEN name ELSE path || '.' || name END
$$;

CREATE OR REPLACE FUNCTION mesh_internal.wrong_type(expected text, got jsonb) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
  SELECT 'expected ' || expected || ', got ' || CASE jsonb_typeof(got)
    WHEN 'object' THEN 'an object' WHEN 'array' THEN 'a list'
    WHEN 'string' THEN CASE WHEN got #>> '{}' ~ '^[^"\x01-\x1f\x7f]{0,40}$' THEN '"' || (got #>> '{}') || '"' ELSE 'a string' END
    WHEN 'number' THEN CASE WHEN char_length(got #>> '{}') <= 40 THEN got #>> '{}' ELSE 'a number' END
    ELSE got::text END
$$;

-- size_reason says that a list has too few items or a string too many characters.
CREATE OR REPLACE FUNCTION mesh_internal.size_reason(low int, high int, n int, unit text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE
    WHEN n < low THEN format('must have at least %s %s%s, has %s', low, unit, CASE WHEN low <> 1 THEN 's' END, n)
    WHEN n > high  THEN format('must have at most %s %s%s, has %s', high, unit, CASE WHEN high <> 1 THEN 's' END, n) END
$$;

CREATE OR REPLACE FUNCTION mesh_internal.range_reason(low numeric, high numeric, n numeric, got text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE
    WHEN n >= coalesce(low, n) AND n <= coalesce(high, n) THEN NULL
    WHEN low IS NOT NULL AND high IS NOT NULL THEN format('must be between %s and %s, got %s', low, high, got)
    WHEN n < low THEN format('must be at least %s, got %s', low, got)
    ELSE format('must be at most %s, got %s', high, got) END
$$;

-- check_number takes numbers and strings that have the form of one.
CREATE OR REPLACE FUNCTION mesh_internal.check_number(f mesh.schema_fields, v jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  whole    boolean := f.value_type <> 'double';
  expected text := CASE WHEN whole THEN 'an integer' ELSE 'a number' END;
  form     text := CASE WHEN whole THEN '^-?[0-9]+$' ELSE '^-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?$' END;
  written  text := v #>> '{}';
BEGIN
  IF jsonb_typeof(v) = 'number' AND (NOT whole OR mesh_internal.is_whole(written))
    OR jsonb_typeof(v) = 'string' AND written ~ form THEN
    RETURN mesh_internal.range_reason(f.min, f.max, written::numeric, written);
  END IF;
  RETURN mesh_internal.wrong_type(expected, v);
END $$;

-- is_whole reports whether a number has no fraction. Above 2^53 only plain digits count.
CREATE OR REPLACE FUNCTION mesh_internal.is_whole(written text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
  SELECT written ~ '^-?[0-9]+$' OR written::numeric = trunc(written::numeric) AND abs(written::numeric) <= 9007199254740992
$$;

CREATE OR REPLACE FUNCTION mesh_internal.check_string(f mesh.schema_fields, v text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE
    WHEN v = '' AND f.min_length > 0 THEN 'must not be empty'
    ELSE coalesce(mesh_internal.size_reason(f.min_length, f.max_length, char_length(v), 'character'),
      CASE WHEN v !~ f.pattern THEN format('does not match the pattern %s, got "%s"', f.pattern, v) END) END
$$;

-- nanoseconds returns a duration, or NULL if the text is none.
CREATE OR REPLACE FUNCTION mesh_internal.nanoseconds(duration text) RETURNS numeric
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  total numeric;
BEGIN
  IF duration ~ '^[-+]?[0-9]+$' THEN
    total := duration::numeric * 1000000000;
  ELSIF duration ~ '^[-+]?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$' THEN
    SELECT sum(('0' || part[1])::numeric * CASE part[2]
        WHEN 'ns' THEN 1 WHEN 'ms' THEN 1000000 WHEN 's' THEN 1000000000 WHEN 'm' THEN 60000000000 WHEN 'h' THEN 3600000000000 ELSE 1000 END)
      INTO total FROM regexp_matches(duration, '([0-9.]+)(ns|us|µs|μs|ms|s|m|h)', 'g') AS part;
    IF left(duration, 1) = '-' THEN
      total := -total;
    END IF;
  END IF;
  RETURN CASE WHEN total BETWEEN -9223372036854775808 AND 9223372036854775807 THEN total END;
END $$;

CREATE OR REPLACE FUNCTION mesh_internal.check_duration(f mesh.schema_fields, v jsonb) RETURNS mesh_internal.problem
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  span    numeric;
  hint    text := 'write it as "5s", "100ms" or "1h30m"; a plain integer is taken as seconds';
  written text := v #>> '{}';
BEGIN
  IF jsonb_typeof(v) = 'number' AND mesh_internal.is_whole(written) THEN
    written := trunc(written::numeric)::text;
  ELSIF jsonb_typeof(v) <> 'string' THEN
    RETURN (NULL, mesh_internal.wrong_type('a duration such as "5s"', v), hint)::mesh_internal.problem;
  END IF;
  span := mesh_internal.nanoseconds(written);
  IF span IS NULL THEN
    RETURN (NULL, format('"%s" is not a duration', written), hint)::mesh_internal.problem;
  ELSIF span < mesh_internal.nanoseconds(f.min_duration) THEN
    RETURN (NULL, format('must be at least %s, got %s', f.min_duration, written), NULL)::mesh_internal.problem;
  ELSIF span > mesh_internal.nanoseconds(f.max_duration) THEN
    RETURN (NULL, format('must be at most %s, got %s', f.max_duration, written), NULL)::mesh_internal.problem;
  ELSIF trunc(span) % mesh_internal.nanoseconds(f.precision) <> 0 THEN
    RETURN (NULL, format('must be a multiple of %s, got %s', f.precision, written), NULL)::mesh_internal.problem;
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION mesh_internal.check_enum(f mesh.schema_fields, v jsonb) RETURNS mesh_internal.problem
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  name text := v #>> '{}';
BEGIN
  IF jsonb_typeof(v) = 'number' AND cardinality(f.numbers) > 0 AND mesh_internal.is_whole(name) THEN
    name := trunc(name::numeric)::text;
    IF name = ANY (f.numbers::text[]) THEN
      RETURN NULL;
    END IF;
  ELSIF jsonb_typeof(v) <> 'string' THEN
    RETURN (NULL, mesh_internal.wrong_type('a string', v), NULL)::mesh_internal.problem;
  END IF;
  IF name = ANY (f.enum) THEN
    RETURN NULL;
  END IF;
  RETURN (NULL, format('unknown value "%s"', name), mesh_internal.hint(name, f.enum, 'one of '))::mesh_internal.problem;
END $$;

-- is_base64 takes the standard and the URL alphabet, padding optional.
CREATE OR REPLACE FUNCTION mesh_internal.is_base64(v text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
  SELECT rtrim(v, '=') ~ CASE WHEN v ~ '[-_]' THEN '^[-_A-Za-z0-9]*$' ELSE '^[A-Za-z0-9+/]*$' END AND length(rtrim(v, '=')) % 4 <> 1
$$;

-- check_scalar returns what is wrong with a value that is not a message.
CREATE OR REPLACE FUNCTION mesh_internal.check_scalar(f mesh.schema_fields, v jsonb) RETURNS mesh_internal.problem
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  reason text;
BEGIN
  CASE f.value_type
  WHEN 'duration' THEN
    RETURN mesh_internal.check_duration(f, v);
  WHEN 'enum' THEN
    RETURN mesh_internal.check_enum(f, v);
  WHEN 'struct' THEN
    reason := CASE WHEN jsonb_typeof(v) <> 'object' THEN mesh_internal.wrong_type('an object', v) END;
  WHEN 'bool' THEN
    reason := CASE WHEN jsonb_typeof(v) <> 'boolean' THEN mesh_internal.wrong_type('a boolean', v) END;
  WHEN 'string', 'bytes' THEN
    reason := CASE
      WHEN jsonb_typeof(v) <> 'string' THEN mesh_internal.wrong_type('a string', v)
      WHEN f.value_type = 'string' THEN mesh_internal.check_string(f, v #>> '{}')
      WHEN NOT mesh_internal.is_base64(v #>> '{}') THEN format('"%s" is not base64', v #>> '{}') END;
  ELSE
    reason := mesh_internal.check_number(f, v);
  END CASE;
  IF reason IS NULL AND f.format IS NOT NULL AND (f.shape <> 'single' OR v <> '""') THEN
    RETURN mesh_internal.check_format(f.format, v #>> '{}');
  ELSIF reason IS NULL THEN
    RETURN NULL;
  END IF;
  RETURN (NULL, reason, NULL)::mesh_internal.problem;
END $$;

-- check_single checks one value of a field.
CREATE OR REPLACE FUNCTION mesh_internal.check_single(f mesh.schema_fields, path text, v jsonb) RETURNS SETOF mesh_internal.problem
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  found mesh_internal.problem;
BEGIN
  IF f.value_type = 'message' THEN
    RETURN QUERY SELECT * FROM mesh_internal.check_object(f.ref, path, v);
    RETURN;
  END IF;
  found := mesh_internal.check_scalar(f, v);
  IF found.reason IS NOT NULL THEN
    found.path := path;
    RETURN NEXT found;
  END IF;
END $$;

-- check_items checks the values of a list or a map.
CREATE OR REPLACE FUNCTION mesh_internal.check_items(f mesh.schema_fields, path text, v jsonb) RETURNS SETOF mesh_internal.problem
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  n      int;
  reason text;
BEGIN
  IF f.shape = 'list' AND jsonb_typeof(v) <> 'array' OR f.shape = 'map' AND jsonb_typeof(v) <> 'object' THEN
    RETURN QUERY SELECT path, mesh_internal.wrong_type(CASE f.shape WHEN 'list' THEN 'a list' ELSE 'an object' END, v), NULL;
    RETURN;
  END IF;
  n := CASE f.shape WHEN 'list' THEN jsonb_array_length(v) ELSE (SELECT count(*) FROM jsonb_object_keys(v)) END;
  reason := mesh_internal.size_reason(f.min_items, f.max_items, n, 'item');
  IF reason IS NOT NULL THEN
    RETURN QUERY SELECT path, reason, NULL;
  END IF;
  IF f.shape = 'list' THEN
    RETURN QUERY SELECT p.* FROM jsonb_array_elements(v) WITH ORDINALITY AS item (value, i),
      mesh_internal.check_single(f, format('%s[%s]', path, i - 1), item.value) p;
    RETURN;
  END IF;
  RETURN QUERY SELECT p.* FROM (SELECT * FROM jsonb_each(v) ORDER BY key COLLATE "C") item,
    LATERAL (
      SELECT mesh_internal.member_path(path, key), format('key "%s" is not an integer', key), NULL
        WHERE f.key_type IS NOT NULL AND key !~ '^-?[0-9]+$'
      UNION ALL
      SELECT mesh_internal.member_path(check_items.path, key), k.reason, k.hint FROM mesh_internal.check_format(f.key_format, key) k
        WHERE k.reason IS NOT NULL AND (f.key_type IS NULL OR key ~ '^-?[0-9]+$')
      UNION ALL
      SELECT s.* FROM mesh_internal.check_single(f, mesh_internal.member_path(path, key), value) s
        WHERE f.key_type IS NULL OR key ~ '^-?[0-9]+$') p;
END $$;

-- check_object checks an object of a type: its fields in order, then the oneofs, then unknown
-- fields.
CREATE OR REPLACE FUNCTION mesh_internal.check_object(of text, path text, v jsonb) RETURNS SETOF mesh_internal.problem
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  t     mesh_internal.schema_types;
  f     mesh.schema_fields;
  found text[];
  have  text[] := '{}';
BEGIN
  IF jsonb_typeof(v) <> 'object' THEN
    RETURN QUERY SELECT path, mesh_internal.wrong_type('an object', v), NULL;
    RETURN;
  END IF;
  FOR f IN SELECT * FROM mesh.schema_fields s WHERE s.type = of ORDER BY s.position LOOP
    found := ARRAY(SELECT n FROM unnest(f.names) WITH ORDINALITY AS u (n, i) WHERE jsonb_typeof(v -> n) <> 'null' ORDER BY i);
    IF cardinality(found) = 0 THEN
      IF f.required THEN
        RETURN QUERY SELECT mesh_internal.member_path(path, f.name), 'required field is missing', NULL;
      END IF;
      CONTINUE;
    END IF;
    have := have || f.name;
    RETURN QUERY SELECT path, format('only one of %s may be set', array_to_string(found, ', ')), NULL WHERE cardinality(found) > 1;
    IF f.shape = 'single' THEN
      RETURN QUERY SELECT * FROM mesh_internal.check_single(f, mesh_internal.member_path(path, found[1]), v -> found[1]);
    ELSE
      RETURN QUERY SELECT * FROM mesh_internal.check_items(f, mesh_internal.member_path(path, found[1]), v -> found[1]);
    END IF;
  END LOOP;
  SELECT * INTO t FROM mesh_internal.schema_types s WHERE s.type = of;
  RETURN QUERY SELECT path, format('only one of %s may be set', array_to_string(s.names, ', ')), NULL
    FROM jsonb_array_elements(t.oneofs) WITH ORDINALITY AS o (oneof, i),
      LATERAL (SELECT ARRAY(SELECT n FROM jsonb_array_elements_text(oneof) WITH ORDINALITY AS u (n, j) WHERE n = ANY (have) ORDER BY j) AS names) s
    WHERE cardinality(s.names) > 1 ORDER BY i;
  RETURN QUERY SELECT mesh_internal.member_path(path, key), format('unknown field "%s"', key),
      CASE WHEN t.fields = '{}' THEN 'it has no fields' ELSE mesh_internal.hint(key, t.fields, 'known fields: ') END
    FROM jsonb_object_keys(v) key
    WHERE NOT EXISTS (SELECT FROM mesh.schema_fields s WHERE s.type = of AND key = ANY (s.names))
    ORDER BY key COLLATE "C";
END $$;

-- origin_annotations are those by which servers say that a resource comes from a registry. Nobody
-- may write them: who did would claim to be of a registry, or a rank among those.
CREATE OR REPLACE FUNCTION mesh_internal.origin_annotations() RETURNS text[]
LANGUAGE sql IMMUTABLE AS $$ SELECT '{pgmesh.io/origin,pgmesh.io/origin-authorities,pgmesh.io/origin-endpoints,pgmesh.io/origin-entry,pgmesh.io/origin-namespace-labels,pgmesh.io/origin-rank,pgmesh.io/origin-set}'::text[] $$;

-- check_text_map checks labels or annotations: an object of strings, with keys of the syntax of
-- Kubernetes's.
CREATE OR REPLACE FUNCTION mesh_internal.check_text_map(path text, v jsonb, unit text) RETURNS SETOF mesh_internal.problem
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  word CONSTANT text := '^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$';
BEGIN
  IF jsonb_typeof(v) <> 'object' THEN
    RETURN QUERY SELECT path, mesh_internal.wrong_type('an object', v), NULL;
    RETURN;
  END IF;
  RETURN QUERY SELECT mesh_internal.member_path(path, key), r.reason, r.hint
    FROM (SELECT key, value, coalesce(substr(key, 1, nullif(strpos(key, '/'), 0) - 1), 'none') AS prefix,
        substr(key, strpos(key, '/') + 1) AS name FROM jsonb_each(v)) m,
      LATERAL (VALUES
        (1, jsonb_typeof(value) <> 'string', mesh_internal.wrong_type('a string', value), NULL),
        (2, char_length(prefix) > 253 OR prefix !~ '^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$' OR char_length(name) > 63 OR name !~ word,
          format('"%s" is not a valid %s key', key, unit),
          'write it as "name" or "example.com/name"; the name has at most 63 letters, digits, "-", "_" and ".", the first and the last a letter or digit'),
        (3, unit = 'label' AND value #>> '{}' <> '' AND (char_length(value #>> '{}') > 63 OR value #>> '{}' !~ word),
          format('"%s" is not a valid label value', value #>> '{}'), 'at most 63 letters, digits, "-", "_" and ".", the first and the last a letter or digit'),
        (4, unit = 'annotation' AND key = ANY (mesh_internal.origin_annotations()), 'is for resources of registries, which servers mark themselves',
          'leave it out; what a registry has is changed there')
      ) r (i, wrong, reason, hint)
    WHERE r.wrong ORDER BY key COLLATE "C", i;
END $$;
