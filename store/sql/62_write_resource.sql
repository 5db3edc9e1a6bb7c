-- How a row of a view becomes a change of a spec. Only changed columns are written, into the spec
-- as it is by then. So what others changed meanwhile, and what has no column, stays.

-- refuse_stale refuses to overwrite what the statement has not seen.
CREATE OR REPLACE FUNCTION mesh_internal.refuse_stale(view text, was jsonb, what text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v mesh_internal.editable_views;
BEGIN
  SELECT * INTO v FROM mesh_internal.editable_views e WHERE e.view = refuse_stale.view;
  RAISE serialization_failure USING
    MESSAGE = format('could not serialize access: another transaction has changed %s since this statement began', what),
    DETAIL  = format('It is about %s %s/%s, through mesh.%I.', v.kind, was ->> 'namespace', was ->> v.parent, view),
    HINT    = 'run the transaction again';
END $$;

-- holder_of returns a value as an object; anything else has no fields to keep.
CREATE OR REPLACE FUNCTION mesh_internal.holder_of(value jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE jsonb_typeof(value) WHEN 'object' THEN value ELSE '{}' END
$$;

-- spelling returns the last name of the path as the object spells it.
CREATE OR REPLACE FUNCTION mesh_internal.spelling(object jsonb, name text, alias text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN nullif(object -> name, 'null') IS NULL AND object -> alias <> 'null' THEN alias ELSE name END
$$;

-- with_field sets a field; NULL removes it, and with it the objects on the way that become empty.
CREATE OR REPLACE FUNCTION mesh_internal.with_field(object jsonb, path text[], alias text, value jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  whole jsonb := mesh_internal.holder_of(object);
  key   text  := path[1];
BEGIN
  IF cardinality(path) > 1 THEN
    value := nullif(mesh_internal.with_field(whole -> key, path[2:], alias, value), '{}');
  ELSE
    key := mesh_internal.spelling(whole, key, alias);
  END IF;
  RETURN CASE WHEN value IS NULL THEN whole - key ELSE whole || jsonb_build_object(key, value) END;
END $$;

CREATE OR REPLACE FUNCTION mesh_internal.field_of(object jsonb, path text[], alias text) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$
  SELECT coalesce(nullif(object #> path, 'null'), nullif(object #> (path[:cardinality(path) - 1] || alias), 'null'))
$$;

-- edited returns the spec after a change of a row of a view: the column spec first, then each field
-- whose column changed. The spec may be newer than the row that the statement saw; then nobody else
-- may have changed what the statement changes.
CREATE OR REPLACE FUNCTION mesh_internal.edited(view text, stored jsonb, was jsonb, wanted jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  seen jsonb := nullif(was -> 'spec', 'null');
  spec jsonb := stored;
  c    mesh_internal.editable_columns;
BEGIN
  IF nullif(wanted -> 'spec', 'null') IS DISTINCT FROM seen THEN
    IF stored IS DISTINCT FROM seen THEN
      PERFORM mesh_internal.refuse_stale(view, was, 'the spec');
    END IF;
    spec := wanted -> 'spec';
  END IF;
  FOR c IN
    SELECT * FROM mesh_internal.editable_columns e
    WHERE e.view = edited.view AND e.path IS NOT NULL AND nullif(wanted -> e.name, 'null') IS DISTINCT FROM nullif(was -> e.name, 'null')
  LOOP
    IF stored IS DISTINCT FROM seen AND mesh_internal.field_of(stored, c.path, c.alias) IS DISTINCT FROM mesh_internal.field_of(seen, c.path, c.alias) THEN
      PERFORM mesh_internal.refuse_stale(view, was, 'the column ' || c.name);
    END IF;
    spec := mesh_internal.with_field(spec, c.path, c.alias, CASE jsonb_typeof(wanted -> c.name)
      WHEN 'number' THEN to_jsonb(trim_scale((wanted ->> c.name)::numeric)) WHEN 'null' THEN NULL ELSE wanted -> c.name END);
  END LOOP;
  RETURN coalesce(nullif(spec, 'null'), '{}');
END $$;

-- edited_map does the same for labels and annotations, which change as a whole.
CREATE OR REPLACE FUNCTION mesh_internal.edited_map(view text, stored jsonb, was jsonb, wanted jsonb, name text) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF wanted -> name = was -> name THEN
    RETURN stored;
  ELSIF stored IS DISTINCT FROM was -> name THEN
    PERFORM mesh_internal.refuse_stale(view, was, 'the ' || name);
  END IF;
  RETURN coalesce(nullif(wanted -> name, 'null'), '{}');
END $$;

-- locked_resource returns the resource behind a row of a view, and locks it until the end of the
-- transaction.
CREATE OR REPLACE FUNCTION mesh_internal.locked_resource(api_group text, kind text, namespace text, name text) RETURNS mesh.resources
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  locked mesh.resources;
BEGIN
  SELECT * INTO locked FROM mesh.resources r WHERE r.kind = $2 AND r.api_group = $1 AND r.namespace = $3 AND r.name = $4 FOR UPDATE;
  RETURN locked;
END $$;

-- refuse_hands refuses for views what stamp_row refuses for the table.
CREATE OR REPLACE FUNCTION mesh_internal.refuse_hands(r mesh.resources) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM mesh_internal.refuse('MS003', r.kind, r.namespace, r.name, '', 'revision, generation, created_at and updated_at are set by themselves', 'leave them out of the UPDATE');
END $$;

-- insert_row writes a new row of a view of whole resources.
CREATE OR REPLACE FUNCTION mesh_internal.insert_row(view text, group_of_kind text, kind text, wanted jsonb) RETURNS mesh.resources
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  into_namespace text := coalesce(wanted ->> 'namespace', 'default');
  inserted       mesh.resources;
BEGIN
  IF NOT mesh_internal.writes_all() THEN -- who may not write must not learn either what there is
    PERFORM mesh_internal.require_write(CASE WHEN k.namespaced THEN into_namespace ELSE '' END)
      FROM mesh.kinds k WHERE k.api_group = group_of_kind AND k.kind = insert_row.kind;
  END IF;
  PERFORM mesh_internal.refuse_duplicate(group_of_kind, insert_row.kind, into_namespace, wanted ->> 'name');
  INSERT INTO mesh.resources (api_group, kind, namespace, name, spec, labels, annotations)
  VALUES (group_of_kind, insert_row.kind, into_namespace, wanted ->> 'name', mesh_internal.edited(view, NULL, '{}', wanted),
    coalesce(nullif(wanted -> 'labels', 'null'), '{}'), coalesce(nullif(wanted -> 'annotations', 'null'), '{}'))
  RETURNING * INTO inserted;
  RETURN inserted;
END $$;

-- update_row writes what changed in a row of a view of whole resources.
CREATE OR REPLACE FUNCTION mesh_internal.update_row(view text, r mesh.resources, was jsonb, wanted jsonb) RETURNS mesh.resources
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  updated mesh.resources;
BEGIN
  IF (wanted -> 'revision', wanted -> 'generation', wanted -> 'created_at', wanted -> 'updated_at') IS DISTINCT FROM
    (was -> 'revision', was -> 'generation', was -> 'created_at', was -> 'updated_at') THEN
    PERFORM mesh_internal.refuse_hands(r);
  END IF;
  IF (wanted ->> 'namespace', wanted ->> 'name') <> (r.namespace, r.name) THEN
    PERFORM mesh_internal.require_write(wanted ->> 'namespace'), mesh_internal.refuse_duplicate(r.api_group, r.kind, wanted ->> 'namespace', wanted ->> 'name');
  END IF;
  UPDATE mesh.resources u SET namespace = wanted ->> 'namespace', name = wanted ->> 'name', spec = mesh_internal.edited(view, r.spec, was, wanted),
    labels = mesh_internal.edited_map(view, r.labels, was, wanted, 'labels'), annotations = mesh_internal.edited_map(view, r.annotations, was, wanted, 'annotations')
  WHERE u.kind = r.kind AND u.api_group = r.api_group AND u.namespace = r.namespace AND u.name = r.name
  RETURNING * INTO updated;
  RETURN updated;
END $$;

-- write_resource writes a row of a view of whole resources. It reads what it returns, which
-- RETURNING shows, from the view again.
CREATE OR REPLACE FUNCTION mesh_internal.write_resource() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  r mesh.resources;
BEGIN
  IF TG_OP = 'INSERT' THEN
    r := mesh_internal.insert_row(TG_TABLE_NAME, TG_ARGV[0], TG_ARGV[1], to_jsonb(NEW));
  ELSE
    r := mesh_internal.locked_resource(TG_ARGV[0], TG_ARGV[1], OLD.namespace, OLD.name);
    IF r.name IS NULL THEN
      RETURN NULL; -- somebody else has deleted it, as may happen to a row of a table
    END IF;
  END IF;
  IF TG_OP = 'DELETE' THEN
    IF (r.spec, r.labels, r.annotations) IS DISTINCT FROM (OLD.spec, OLD.labels, OLD.annotations) THEN
      PERFORM mesh_internal.refuse_stale(TG_TABLE_NAME, to_jsonb(OLD), 'what is to be deleted');
    END IF;
    DELETE FROM mesh.resources d WHERE d.kind = r.kind AND d.api_group = r.api_group AND d.namespace = r.namespace AND d.name = r.name;
    RETURN OLD;
  ELSIF TG_OP = 'UPDATE' THEN
    r := mesh_internal.update_row(TG_TABLE_NAME, r, to_jsonb(OLD), to_jsonb(NEW));
  END IF;
  EXECUTE format('SELECT * FROM mesh.%I WHERE namespace = $1 AND name = $2', TG_TABLE_NAME) INTO NEW USING r.namespace, r.name;
  RETURN NEW;
END $$;
