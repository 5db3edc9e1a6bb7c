-- A view for each kind, with a column for each field of its spec. A migration makes them at its end
-- from the table of types and fields, and also the views of parts (61_parts.sql,
-- 61_route_parts.sql). The triggers that write through them are in files 62 and 63.

-- readable_resources has the resources that the acting role may see.
CREATE OR REPLACE VIEW mesh.readable_resources WITH (security_barrier) AS
  SELECT api_group, kind, namespace, name, spec, labels, annotations,
    t.revision, generation, created_at, updated_at
  FROM mesh.resources r LEFT JOIN mesh_internal.transactions t ON t.xid = r.xid AND t.begun_at = r.updated_at
  WHERE (SELECT mesh_internal.sees_all()) OR namespace = ANY ((SELECT mesh_internal.readable_namespaces())::text[]);

-- visible_resources is the same for views that can be written to. LOCK TABLE on a view also locks
-- what its query reads, with the rights of the view's owner, and whoever may delete from a view may
-- lock it: a table behind it would be locked for everybody. A function stops that. Postgres still
-- inlines it, if it is neither SECURITY DEFINER nor has settings. So here row-level security keeps
-- rows of others out of the query.
CREATE OR REPLACE FUNCTION mesh_internal.visible_resources()
RETURNS TABLE (api_group text, kind text, namespace text, name text, spec jsonb, labels jsonb, annotations jsonb, revision bigint, generation bigint,
  created_at timestamptz, updated_at timestamptz)
LANGUAGE sql STABLE AS $$
  SELECT r.api_group, r.kind, r.namespace, r.name, r.spec, r.labels, r.annotations,
    t.revision, r.generation, r.created_at, r.updated_at
  FROM mesh.resources r LEFT JOIN mesh_internal.transactions t ON t.xid = r.xid AND t.begun_at = r.updated_at
  WHERE (SELECT mesh_internal.sees_all()) OR r.namespace = ANY ((SELECT mesh_internal.readable_namespaces())::text[])
$$;

COMMENT ON VIEW mesh.readable_resources IS 'The resources that the acting role may read, each with the revision that last changed it. The views of kinds show these.';
COMMENT ON COLUMN mesh.readable_resources.api_group IS 'The API group of the resource.';
COMMENT ON COLUMN mesh.readable_resources.kind IS 'The kind of the resource.';
COMMENT ON COLUMN mesh.readable_resources.namespace IS 'The namespace of the resource; empty for kinds without one.';
COMMENT ON COLUMN mesh.readable_resources.name IS 'The name of the resource.';
COMMENT ON COLUMN mesh.readable_resources.spec IS 'The spec.';
COMMENT ON COLUMN mesh.readable_resources.labels IS 'The labels, an object of strings.';
COMMENT ON COLUMN mesh.readable_resources.annotations IS 'The annotations, an object of strings.';
COMMENT ON COLUMN mesh.readable_resources.revision IS 'The revision that last changed the resource; NULL while the running transaction changes it.';
COMMENT ON COLUMN mesh.readable_resources.generation IS 'How many times the spec has changed.';
COMMENT ON COLUMN mesh.readable_resources.created_at IS 'When the transaction that created the resource began.';
COMMENT ON COLUMN mesh.readable_resources.updated_at IS 'When the transaction that last changed the resource began.';

-- snake_case turns a name of JSON or of a kind into one of SQL: exportTo into export_to, HTTPRoute
-- into http_route.
CREATE OR REPLACE FUNCTION mesh_internal.snake_case(name text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
  SELECT lower(regexp_replace(regexp_replace(name, '([a-z0-9])([A-Z])', '\1_\2', 'g'), '([A-Z])([A-Z][a-z])', '\1_\2', 'g'))
$$;

-- view_name returns the plural of a kind in snake case. If two groups have a kind of that name, the
-- view of Istio's has it.
CREATE OR REPLACE FUNCTION mesh_internal.view_name(k mesh.kinds) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE WHEN k.api_group NOT LIKE '%istio.io' AND EXISTS (SELECT FROM mesh.kinds other WHERE other.kind = k.kind AND other.api_group LIKE '%istio.io')
      THEN 'k8s_' ELSE '' END || left(singular, length(singular) - tail) || substr(k.plural, length(k.kind) - tail + 1)
  FROM (SELECT mesh_internal.snake_case(k.kind) AS singular, (k.plural NOT LIKE lower(k.kind) || '%')::int AS tail) form -- y becomes ies
$$;

CREATE OR REPLACE FUNCTION mesh_internal.column_type(f mesh.schema_fields) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE
    WHEN f.shape = 'list' AND f.value_type IN ('string', 'enum', 'duration') THEN 'text[]'
    WHEN f.shape <> 'single' THEN 'jsonb'
    WHEN f.value_type IN ('string', 'enum', 'duration', 'bytes') THEN 'text'
    WHEN f.value_type = 'int32' OR f.value_type = 'uint32' AND f.max <= 2147483647 THEN 'integer'
    WHEN f.value_type IN ('uint32', 'int64') THEN 'bigint'
    WHEN f.value_type = 'uint64' THEN 'numeric'
    WHEN f.value_type = 'double' THEN 'double precision'
    WHEN f.value_type = 'bool' THEN 'boolean'
    ELSE 'jsonb' END
$$;

-- read_field returns an expression for a field of an object; NULL if the field is not set. The
-- expression never fails: a value that does not fit the type of the column is NULL there, and is in
-- the column spec. An integer is shown as numeric: where a column is an integer Postgres rounds what
-- is written to it, and a weight of 33.3 would be 33 without a word.
CREATE OR REPLACE FUNCTION mesh_internal.read_field(object text, path text[], alias text, type text) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  holder  text := object || array_to_string(ARRAY(SELECT format(' -> %L', key) FROM unnest(path[:cardinality(path) - 1]) key), '');
  field   text := path[cardinality(path)];
  written text := format('(%s ->> %L)', holder, field);
  value   text := format('(%s -> %L)', holder, field);
BEGIN
  IF alias IS NOT NULL THEN
    written := format('coalesce(%s, %s ->> %L)', written, holder, alias);
    value := format('coalesce(nullif(%s, ''null''), %s -> %L)', value, holder, alias);
  END IF;
  RETURN CASE type
    WHEN 'text' THEN written
    WHEN 'boolean' THEN format('CASE %s WHEN ''true'' THEN true WHEN ''false'' THEN false END', written)
    WHEN 'text[]' THEN format('CASE jsonb_typeof(%s) WHEN ''array'' THEN ARRAY(SELECT jsonb_array_elements_text(%1$s)) END', value)
    WHEN 'double precision' THEN format('CASE WHEN %s ~ ''^-?[0-9]{1,300}(\.[0-9]{1,300})?$'' THEN %1$s::double precision END', written)
    WHEN 'jsonb' THEN format('nullif(%s, ''null'')', value)
    ELSE format('CASE WHEN %s ~ ''^-?[0-9]{1,20}(\.0{1,20})?$'' THEN CASE WHEN %1$s::numeric BETWEEN %2$s THEN trim_scale(%1$s::numeric) END END', written,
      CASE type WHEN 'integer' THEN '-2147483648 AND 2147483647' WHEN 'bigint' THEN '-9223372036854775808 AND 9223372036854775807' ELSE '0 AND 18446744073709551615' END)
  END;
END $$;

-- field_summary describes in words what a field takes.
CREATE OR REPLACE FUNCTION mesh_internal.field_summary(f mesh.schema_fields) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT concat_ws(', ', CASE f.shape WHEN 'list' THEN 'a list' WHEN 'map' THEN 'an object' END,
    CASE
      WHEN f.enum IS NOT NULL AND f.shape = 'single' THEN 'one of ' || array_to_string(f.enum, ', ')
      WHEN f.enum IS NOT NULL THEN 'each one of ' || array_to_string(f.enum, ', ')
      WHEN f.ref IS NOT NULL THEN (SELECT CASE f.shape WHEN 'single' THEN '' ELSE 'each ' END || 'an object of ' || array_to_string(t.fields, ', ')
        FROM mesh_internal.schema_types t WHERE t.type = f.ref AND t.fields <> '{}')
      WHEN f.value_type = 'duration' THEN 'such as 5s or 100ms'
      WHEN f.shape = 'list' THEN 'of ' || f.value_type || 's' END,
    CASE WHEN f.required THEN 'required' END)
$$;

-- describe_view records the columns of a view: first those that identify the row, then the fields
-- of the type, then those that all views have. Fields in left_out have columns among the first.
CREATE OR REPLACE FUNCTION mesh_internal.describe_view(v mesh_internal.editable_views, type text, object text, first mesh_internal.editable_columns[], last mesh_internal.editable_columns[], left_out text[])
RETURNS void LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  WITH fields AS (
    SELECT f.position, f.name, f.names[2] AS alias, mesh_internal.column_type(f) AS shown, mesh_internal.snake_case(f.name) AS plain, mesh_internal.field_summary(f) AS summary
    FROM mesh.schema_fields f WHERE f.type = describe_view.type AND NOT f.name = ANY (left_out)
  ), columns AS (
    SELECT 1 AS place, i, c.name, c.type, c.expression, c.path, c.alias, c.summary FROM unnest(first) WITH ORDINALITY AS c (view, position, name, type, expression, path, alias, summary, i)
    UNION ALL
    SELECT 2, position, CASE WHEN plain IN (SELECT name FROM unnest(first || last)) THEN 'spec_' ELSE '' END || plain, shown,
      mesh_internal.read_field(object, ARRAY[name], alias, shown), ARRAY[name], alias, concat_ws(': ', 'The field ' || name, nullif(summary, ''))
    FROM fields
    UNION ALL
    SELECT 3, i, c.name, c.type, c.expression, c.path, c.alias, c.summary FROM unnest(last) WITH ORDINALITY AS c (view, position, name, type, expression, path, alias, summary, i)
  ), described AS (
    INSERT INTO mesh_internal.editable_views SELECT v.*
  )
  INSERT INTO mesh_internal.editable_columns
  SELECT v.view, row_number() OVER (ORDER BY place, i), name, type, expression, path, alias, summary FROM columns
$$;

-- describe_kinds describes the views of whole resources.
CREATE OR REPLACE FUNCTION mesh_internal.describe_kinds() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  k     mesh.kinds;
  v     mesh_internal.editable_views;
  first mesh_internal.editable_columns[] := ARRAY[
    (NULL, 0, 'namespace', 'text', 'r.namespace', NULL, NULL, 'The namespace; default if left out.'),
    (NULL, 0, 'name', 'text', 'r.name', NULL, NULL, 'The name, one of its kind in the namespace.')]::mesh_internal.editable_columns[];
  last  mesh_internal.editable_columns[] := ARRAY[
    (NULL, 0, 'labels', 'jsonb', 'r.labels', NULL, NULL, 'The labels of the resource, an object of strings.'),
    (NULL, 0, 'annotations', 'jsonb', 'r.annotations', NULL, NULL, 'The annotations of the resource, an object of strings.'),
    (NULL, 0, 'spec', 'jsonb', 'r.spec', NULL, NULL, 'The whole spec, of which the other columns show the fields.'),
    (NULL, 0, 'revision', 'bigint', 'r.revision', NULL, NULL, 'The revision that changed the resource last; NULL where that is the running transaction, which has none before its commit.'),
    (NULL, 0, 'generation', 'bigint', 'r.generation', NULL, NULL, 'How often the spec has changed. Set by itself.'),
    (NULL, 0, 'created_at', 'timestamptz', 'r.created_at', NULL, NULL, 'When the transaction began that made the resource. Set by itself.'),
    (NULL, 0, 'updated_at', 'timestamptz', 'r.updated_at', NULL, NULL, 'When the transaction began that changed the resource last. Set by itself.')]::mesh_internal.editable_columns[];
BEGIN
  FOR k IN SELECT * FROM mesh.kinds WHERE type IS NOT NULL LOOP
    v := (mesh_internal.view_name(k), k.api_group, k.kind, 'name', '{}', '{}', 'mesh_internal.visible_resources() r',
      format('The resources of kind %s (%s), one a row. Can be written to like a table.', k.kind, k.api_group));
    PERFORM mesh_internal.describe_view(v, k.type, 'r.spec', first, last, '{}');
  END LOOP;
END $$;

-- view_query returns the query of a view. Existing columns keep their place, because Postgres adds
-- new ones only at the end.
CREATE OR REPLACE FUNCTION mesh_internal.view_query(v mesh_internal.editable_views) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT format('SELECT %s FROM %s WHERE r.kind = %L AND r.api_group = %L', string_agg(format('%s AS %I', c.expression, c.name), ', ' ORDER BY a.attnum, c.position), v.source, v.kind, v.api_group)
  FROM mesh_internal.editable_columns c LEFT JOIN pg_attribute a ON a.attrelid = to_regclass(format('mesh.%I', v.view)) AND a.attname = c.name
  WHERE c.view = v.view
$$;

-- privileges_on lists statements that grant again what is granted on a relation.
CREATE OR REPLACE FUNCTION mesh_internal.privileges_on(relation regclass) RETURNS SETOF text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT format('GRANT %s ON %s TO %s%s', a.privilege_type, relation, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END,
    CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
  FROM pg_class c, aclexplode(c.relacl) a WHERE c.oid = relation AND a.grantee <> c.relowner
$$;

-- replace_view recreates a view that lost a column, or the type of one, unless something depends on
-- it.
CREATE OR REPLACE FUNCTION mesh_internal.replace_view(v mesh_internal.editable_views) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  privileges text[] := ARRAY(SELECT mesh_internal.privileges_on(format('mesh.%I', v.view)::regclass));
  privilege  text;
  dependents text;
BEGIN
  BEGIN
    EXECUTE format('DROP VIEW mesh.%I', v.view);
  EXCEPTION WHEN dependent_objects_still_exist THEN
    GET STACKED DIAGNOSTICS dependents = PG_EXCEPTION_DETAIL;
    RAISE dependent_objects_still_exist USING
      MESSAGE = format('the view mesh.%I has to change, and something depends on it', v.view),
      DETAIL  = dependents,
      HINT    = 'drop what depends on it, migrate, and make it anew';
  END;
  EXECUTE format('CREATE VIEW mesh.%I AS %s', v.view, mesh_internal.view_query(v));
  FOREACH privilege IN ARRAY privileges LOOP
    EXECUTE privilege;
  END LOOP;
END $$;

-- make_view creates a view, with its defaults, comments and triggers.
CREATE OR REPLACE FUNCTION mesh_internal.make_view(v mesh_internal.editable_views) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  c mesh_internal.editable_columns;
BEGIN
  BEGIN
    EXECUTE format('CREATE OR REPLACE VIEW mesh.%I AS %s', v.view, mesh_internal.view_query(v));
  EXCEPTION WHEN invalid_table_definition THEN
    PERFORM mesh_internal.replace_view(v);
  END;
  EXECUTE format('COMMENT ON VIEW mesh.%I IS %L', v.view, v.summary);
  FOR c IN SELECT * FROM mesh_internal.editable_columns WHERE view = v.view LOOP
    EXECUTE format('COMMENT ON COLUMN mesh.%I.%I IS %L', v.view, c.name, c.summary);
  END LOOP;
  EXECUTE format('ALTER VIEW mesh.%I ALTER COLUMN namespace SET DEFAULT %L', v.view, CASE v.api_group WHEN 'core' THEN mesh_internal.mesh_namespace() ELSE 'default' END);
  EXECUTE format('DROP TRIGGER IF EXISTS write_row ON mesh.%I', v.view);
  EXECUTE format('CREATE TRIGGER write_row INSTEAD OF INSERT OR UPDATE OR DELETE ON mesh.%I FOR EACH ROW EXECUTE FUNCTION mesh_internal.%I(%L, %L)',
    v.view, CASE v.list WHEN '{}' THEN 'write_resource' ELSE 'note_part' END, v.api_group, v.kind);
  IF v.list <> '{}' THEN
    EXECUTE format('DROP TRIGGER IF EXISTS write_parts ON mesh.%I', v.view);
    EXECUTE format('CREATE TRIGGER write_parts AFTER INSERT OR UPDATE OR DELETE ON mesh.%I FOR EACH STATEMENT EXECUTE FUNCTION mesh_internal.write_parts()', v.view);
  END IF;
END $$;

-- make_views creates the views of all known kinds.
CREATE OR REPLACE FUNCTION mesh_internal.make_views() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v      mesh_internal.editable_views;
  former text[] := ARRAY(SELECT view FROM mesh_internal.editable_views);
  gone   text;
BEGIN
  DELETE FROM mesh_internal.editable_views;
  DELETE FROM mesh_internal.editable_columns;
  PERFORM mesh_internal.describe_kinds();
  PERFORM mesh_internal.describe_parts();
  PERFORM mesh_internal.describe_api_parts();
  FOR v IN SELECT * FROM mesh_internal.editable_views ORDER BY view LOOP
    PERFORM mesh_internal.make_view(v);
  END LOOP;
  FOR gone IN SELECT view FROM unnest(former) view EXCEPT SELECT view FROM mesh_internal.editable_views LOOP
    EXECUTE format('DROP VIEW IF EXISTS mesh.%I', gone);
  END LOOP;
  ANALYZE mesh_internal.editable_views, mesh_internal.editable_columns;
END $$;

-- views_fit reports whether all views exist and were made from the current code and registry.
CREATE OR REPLACE FUNCTION mesh_internal.views_fit() RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT i.views_digest = i.code_digest || i.registry_digest AND NOT EXISTS (SELECT FROM mesh_internal.editable_views v WHERE to_regclass(format('mesh.%I', v.view)) IS NULL)
  FROM mesh_internal.installation i
$$;

-- install_views creates the views if they do not fit.
CREATE OR REPLACE FUNCTION mesh_internal.install_views() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NOT mesh_internal.views_fit() THEN
    PERFORM mesh_internal.make_views();
    UPDATE mesh_internal.installation SET views_digest = code_digest || registry_digest;
  END IF;
END $$;
