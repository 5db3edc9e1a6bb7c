-- How rows of views of parts are written. A statement's edits are noted while it runs; at its end
-- each affected resource is locked and written once. So a resource is judged by the result of the
-- whole statement.

-- list_of returns the list of the spec that a row of a view belongs to.
CREATE OR REPLACE FUNCTION mesh_internal.list_of(v mesh_internal.editable_views, row_of_view jsonb) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  list text[] := v.list;
BEGIN
  FOR i IN 1..cardinality(list) LOOP
    IF list[i] LIKE '{%' THEN
      list[i] := row_of_view ->> btrim(list[i], '{}');
    END IF;
  END LOOP;
  RETURN list;
END $$;

-- holder_of_list names the column that shows the name of the part which holds the list of a row: the
-- route of a destination, the rule of a backend. NULL where the resource itself holds it.
CREATE OR REPLACE FUNCTION mesh_internal.holder_of_list(v mesh_internal.editable_views) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT regexp_replace(btrim(v.list[2], '{}'), '_position$', '')
$$;

-- completed_key fills in the missing parts of where a new row belongs. The route of a destination
-- can be given by name, or left out if there is only one; so can the rule of a backend.
CREATE OR REPLACE FUNCTION mesh_internal.completed_key(v mesh_internal.editable_views, wanted jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  given  jsonb := (SELECT jsonb_object_agg(key, value) FROM jsonb_each(wanted) WHERE value <> 'null');
  holder text  := mesh_internal.holder_of_list(v);
  owner  mesh.resources;
  fits   int[];
BEGIN
  wanted := wanted || '{"namespace": "default", "revision": 0}' || CASE WHEN '{protocol}' = ANY (v.list) THEN '{"protocol": "http"}' ELSE '{}' END::jsonb || given;
  SELECT * INTO owner FROM mesh.resources r WHERE r.kind = v.kind AND r.api_group = v.api_group AND r.namespace = wanted ->> 'namespace' AND r.name = wanted ->> v.parent;
  IF NOT FOUND AND given ? v.parent THEN
    PERFORM mesh_internal.refuse_orphan(v.kind, wanted ->> 'namespace', wanted ->> v.parent, true);
  END IF;
  IF holder IS NOT NULL AND NOT given ? (holder || '_position') THEN
    fits := ARRAY(SELECT i - 1 FROM jsonb_array_elements(mesh_internal.items_of(owner.spec -> (mesh_internal.list_of(v, wanted))[1])) WITH ORDINALITY AS u (value, i)
      WHERE NOT given ? holder OR value -> 'name' = given -> holder);
    IF fits = '{}' AND given ? holder AND owner.name IS NOT NULL THEN
      PERFORM mesh_internal.refuse_nameless(v, owner, holder, given ->> holder, mesh_internal.items_of(owner.spec -> (mesh_internal.list_of(v, wanted))[1]));
    END IF;
    wanted := wanted || jsonb_build_object(holder || '_position', CASE cardinality(fits) WHEN 1 THEN fits[1] END);
  END IF;
  RETURN wanted || jsonb_build_object('position', mesh_internal.place_in(v, owner, wanted));
END $$;

-- refuse_nameless refuses a part of a route or rule of a name that none has.
CREATE OR REPLACE FUNCTION mesh_internal.refuse_nameless(v mesh_internal.editable_views, r mesh.resources, holder text, name text, holders jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  known text[] := ARRAY(SELECT value ->> 'name' FROM jsonb_array_elements(holders) WITH ORDINALITY AS u (value, i) WHERE value ->> 'name' <> '' ORDER BY i);
BEGIN
  RAISE foreign_key_violation USING MESSAGE = format('there is no %s "%s" in %s %s/%s', holder, name, r.kind, r.namespace, r.name),
    HINT = CASE known WHEN '{}' THEN format('no %s of it has a name: set %1$s_position, which counts from 0', holder)
      ELSE mesh_internal.hint(name, known, format('the %ss that have a name are ', holder)) END;
END $$;

-- items_of returns a value as a list; anything else has no items.
CREATE OR REPLACE FUNCTION mesh_internal.items_of(value jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE jsonb_typeof(value) WHEN 'array' THEN value ELSE '[]' END
$$;

-- with_whole_places returns a row with its positions written as integers, and refuses others. What is
-- beyond the end of a list is its end.
CREATE OR REPLACE FUNCTION mesh_internal.with_whole_places(v mesh_internal.editable_views, row_of_view jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  place text;
BEGIN
  FOR place IN SELECT c.name FROM mesh_internal.editable_columns c WHERE c.view = v.view AND c.path IS NULL AND c.type = 'numeric' LOOP
    CONTINUE WHEN row_of_view ->> place IS NULL;
    IF NOT mesh_internal.is_whole(row_of_view ->> place) THEN
      RAISE check_violation USING MESSAGE = format('the column %s of mesh.%I must be an integer, got %s', place, v.view, row_of_view ->> place), HINT = 'positions count from 0',
        SCHEMA = 'mesh', TABLE = v.view, COLUMN = place, CONSTRAINT = 'resource_is_valid';
    ELSIF (row_of_view ->> place)::numeric < 0 THEN
      RAISE check_violation USING MESSAGE = format('the column %s of mesh.%I must not be negative, got %s', place, v.view, row_of_view ->> place), HINT = 'positions count from 0, which is the first',
        SCHEMA = 'mesh', TABLE = v.view, COLUMN = place, CONSTRAINT = 'resource_is_valid';
    END IF;
    row_of_view := row_of_view || jsonb_build_object(place, trunc(least((row_of_view ->> place)::numeric, 2147483647)));
  END LOOP;
  RETURN row_of_view;
END $$;

-- place_in returns the position of a new part: the given one, or the end.
CREATE OR REPLACE FUNCTION mesh_internal.place_in(v mesh_internal.editable_views, r mesh.resources, wanted jsonb) RETURNS bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT least((wanted ->> 'position')::bigint, jsonb_array_length(mesh_internal.items_of(r.spec #> mesh_internal.list_of(v, wanted))) + (
    SELECT count(*) FROM mesh_internal.part_edits e
    WHERE e.xid = pg_current_xact_id() AND e.operation = 'insert' AND e.view = v.view AND e.namespace = r.namespace AND e.parent = r.name AND e.list = mesh_internal.list_of(v, wanted)))
$$;

-- check_key refuses a row that does not say where it belongs, or that changes a column which
-- another view owns.
CREATE OR REPLACE FUNCTION mesh_internal.check_key(v mesh_internal.editable_views, was jsonb, wanted jsonb) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  holder text := mesh_internal.holder_of_list(v);
  fixed  text;
BEGIN
  IF wanted ->> v.parent IS NULL THEN
    RAISE not_null_violation USING MESSAGE = format('the column %s of mesh.%I must not be null', v.parent, v.view);
  ELSIF array_position(mesh_internal.list_of(v, wanted), NULL) IS NOT NULL THEN
    RAISE not_null_violation USING MESSAGE = format('it is not clear which %s of %s %s/%s the row belongs to', holder, v.kind, wanted ->> 'namespace', wanted ->> v.parent),
      HINT = format('set %s_position, or %1$s to the name of one', holder);
  END IF;
  FOR fixed IN SELECT c.name FROM mesh_internal.editable_columns c
    WHERE c.view = v.view AND c.path IS NULL AND c.name IN (holder, 'match', 'matches', 'revision') AND was ? c.name AND was -> c.name IS DISTINCT FROM wanted -> c.name
  LOOP
    PERFORM mesh_internal.refuse('MS003', v.kind, was ->> 'namespace', was ->> v.parent, '', format('the column %s of mesh.%I cannot be changed', fixed, v.view),
      CASE fixed WHEN 'revision' THEN 'it is set by itself: leave it out of the UPDATE' ELSE 'change it in mesh.' || mesh_internal.view_of_holders(v) END);
  END LOOP;
END $$;

-- view_of_holders returns the view that shows what holds the lists of a view: the routes of
-- destinations, the rules of backends; or the whole resources, if there is none of these.
CREATE OR REPLACE FUNCTION mesh_internal.view_of_holders(v mesh_internal.editable_views) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT h.view FROM mesh_internal.editable_views h WHERE h.kind = v.kind AND h.api_group = v.api_group AND h.list IN ('{}', v.list[:1]) ORDER BY cardinality(h.list) DESC LIMIT 1
$$;

-- shown_part returns a part as its view shows it.
CREATE OR REPLACE FUNCTION mesh_internal.shown_part(view text, part jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  columns text := (SELECT string_agg(format('%s AS %I', expression, name), ', ') FROM mesh_internal.editable_columns c WHERE c.view = shown_part.view AND path IS NOT NULL);
  shown   jsonb;
BEGIN
  EXECUTE format('SELECT to_jsonb(c) FROM (SELECT part.value AS spec, %s FROM (VALUES ($1)) part (value)) c', columns) INTO shown USING part;
  RETURN shown;
END $$;

-- note_part notes what a statement does to a part. A part that moves to another list is deleted
-- here and inserted there. The returned row, which RETURNING shows, has the position that the part
-- gets if nobody else edits the list meanwhile.
CREATE OR REPLACE FUNCTION mesh_internal.note_part() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  v      mesh_internal.editable_views;
  was    jsonb;
  given  jsonb;
  wanted jsonb;
  part   jsonb;
BEGIN
  SELECT * INTO v FROM mesh_internal.editable_views WHERE view = TG_TABLE_NAME;
  IF TG_OP <> 'INSERT' THEN
    was := to_jsonb(OLD);
    PERFORM mesh_internal.require_write(OLD.namespace);
  ELSE -- who may not write must not learn either what there is
    PERFORM mesh_internal.require_write(coalesce(NEW.namespace, 'default'));
  END IF;
  IF TG_OP = 'DELETE' THEN
    PERFORM mesh_internal.note_edit(v, 'remove', was, NULL);
    RETURN OLD;
  END IF;
  given := mesh_internal.with_whole_places(v, to_jsonb(NEW));
  wanted := CASE TG_OP WHEN 'INSERT' THEN mesh_internal.completed_key(v, given) ELSE given END;
  PERFORM mesh_internal.check_key(v, was, wanted);
  IF TG_OP = 'INSERT' THEN
    PERFORM mesh_internal.note_edit(v, 'insert', NULL, wanted || jsonb_build_object('position', given -> 'position'));
  ELSIF (was -> 'namespace', was -> v.parent, mesh_internal.list_of(v, was)) IS DISTINCT FROM (wanted -> 'namespace', wanted -> v.parent, mesh_internal.list_of(v, wanted)) THEN
    PERFORM mesh_internal.note_edit(v, 'remove', was, NULL);
    PERFORM mesh_internal.note_edit(v, 'insert', was, wanted);
  ELSE
    PERFORM mesh_internal.note_edit(v, CASE WHEN wanted -> 'position' = was -> 'position' THEN 'change' ELSE 'move' END, was, wanted);
  END IF;
  part := mesh_internal.edited(v.view, was -> 'spec', coalesce(was, '{}'), wanted);
  IF wanted -> 'spec' IS DISTINCT FROM was -> 'spec' THEN
    wanted := wanted || mesh_internal.shown_part(v.view, part);
  END IF;
  RETURN jsonb_populate_record(NEW, wanted || jsonb_build_object('spec', part));
END $$;

CREATE OR REPLACE FUNCTION mesh_internal.note_edit(v mesh_internal.editable_views, operation text, was jsonb, wanted jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  place jsonb := CASE operation WHEN 'insert' THEN wanted ELSE was END;
BEGIN
  INSERT INTO mesh_internal.part_edits (view, namespace, parent, list, position, operation, was, wanted)
  VALUES (v.view, place ->> 'namespace', place ->> v.parent, mesh_internal.list_of(v, place), (place ->> 'position')::int, operation, was, wanted);
END $$;

-- identity_of returns what identifies a part; another identity means another part.
CREATE OR REPLACE FUNCTION mesh_internal.identity_of(v mesh_internal.editable_views, part jsonb) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT jsonb_object_agg(c.name, mesh_internal.field_of(part, c.path, c.alias)) FROM mesh_internal.editable_columns c WHERE c.view = v.view AND c.name = ANY (v.identity)
$$;

-- located returns the position of a part: where the row says, or the nearest like it; NULL if there
-- is none.
CREATE OR REPLACE FUNCTION mesh_internal.located(v mesh_internal.editable_views, parts jsonb[], e mesh_internal.part_edits) RETURNS int
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  part jsonb := e.was -> 'spec';
BEGIN
  IF parts[e.position + 1] = part THEN
    RETURN e.position + 1;
  END IF;
  RETURN (SELECT i FROM unnest(parts) WITH ORDINALITY AS u (other, i)
    WHERE other IS NOT NULL AND mesh_internal.identity_of(v, other) = mesh_internal.identity_of(v, part)
    ORDER BY other = part DESC, abs(i - 1 - e.position) LIMIT 1);
END $$;

-- edited_list returns a list after the edits. Parts change and go first, and come last, so that
-- positions are those before and after the statement.
CREATE OR REPLACE FUNCTION mesh_internal.edited_list(v mesh_internal.editable_views, list jsonb, edits mesh_internal.part_edits[]) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  parts  jsonb[] := ARRAY(SELECT value FROM jsonb_array_elements(list) WITH ORDINALITY AS u (value, i) ORDER BY i);
  coming jsonb[] := '{}';
  places int[]   := '{}'; -- of what is coming
  e      mesh_internal.part_edits;
  at     int;
BEGIN
  FOREACH e IN ARRAY edits LOOP
    IF e.operation = 'insert' THEN
      coming := coming || mesh_internal.edited(v.view, e.was -> 'spec', coalesce(e.was, '{}'), e.wanted);
      places := places || e.position;
      CONTINUE;
    END IF;
    at := mesh_internal.located(v, parts, e);
    IF at IS NULL OR e.operation = 'remove' AND parts[at] <> e.was -> 'spec' THEN
      PERFORM mesh_internal.refuse_stale(v.view, e.was, 'a part of it');
    END IF;
    IF e.operation = 'move' THEN
      coming := coming || mesh_internal.edited(v.view, parts[at], e.was, e.wanted);
      places := places || (e.wanted ->> 'position')::int;
    END IF;
    parts[at] := CASE e.operation WHEN 'change' THEN mesh_internal.edited(v.view, parts[at], e.was, e.wanted) END;
  END LOOP;
  RETURN mesh_internal.joined_list(array_remove(parts, NULL), coming, places);
END $$;

-- joined_list inserts parts into a list, each at its position, or at the end.
CREATE OR REPLACE FUNCTION mesh_internal.joined_list(parts jsonb[], coming jsonb[], places int[]) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  part  jsonb;
  place int;
BEGIN
  FOR part, place IN SELECT u.part, u.place FROM unnest(coming, places) WITH ORDINALITY AS u (part, place, i) ORDER BY u.place NULLS LAST, i LOOP
    place := least(place, cardinality(parts));
    parts := parts[:place] || part || parts[place + 1:];
  END LOOP;
  RETURN to_jsonb(parts);
END $$;

-- located_list returns where the list of an edit is now. Other transactions may have moved the route
-- or the rule that holds it, which is found again by its name, by what it matches, and by the part
-- itself.
CREATE OR REPLACE FUNCTION mesh_internal.located_list(v mesh_internal.editable_views, r mesh.resources, e mesh_internal.part_edits) RETURNS text[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  holder  text := mesh_internal.holder_of_list(v);
  matched text := CASE WHEN e.was ? 'match' THEN 'match' WHEN e.was ? 'matches' THEN 'matches' END; -- the column, and the field
  at      int;
BEGIN
  IF holder IS NULL OR e.was IS NULL OR (e.was ->> 'namespace', e.was ->> v.parent) <> (r.namespace, r.name)
    OR (e.was ->> 'revision')::bigint IS NOT DISTINCT FROM mesh_internal.revision_of(r) THEN
    RETURN e.list;
  ELSIF e.operation = 'insert' THEN -- the row tells which route it left, and of the other its position alone
    PERFORM mesh_internal.refuse_stale(v.view, e.was, 'the ' || holder);
  END IF;
  SELECT i - 1 INTO at FROM jsonb_array_elements(mesh_internal.items_of(r.spec -> e.list[1])) WITH ORDINALITY AS u (value, i)
    WHERE nullif(value -> 'name', 'null') IS NOT DISTINCT FROM nullif(e.was -> holder, 'null')
      AND (matched IS NULL OR nullif(value -> matched, 'null') IS NOT DISTINCT FROM nullif(e.was -> matched, 'null'))
    ORDER BY EXISTS (SELECT FROM jsonb_array_elements(mesh_internal.items_of(value -> e.list[3])) part WHERE part = e.was -> 'spec') DESC, abs(i - 1 - e.list[2]::int) LIMIT 1;
  IF NOT FOUND THEN
    PERFORM mesh_internal.refuse_stale(v.view, e.was, 'the ' || holder);
  END IF;
  RETURN ARRAY[e.list[1], at::text, e.list[3]];
END $$;

-- edited_parent returns the spec of a resource after the edits of its parts. Edits of routes and
-- rules come last, because they move the others.
CREATE OR REPLACE FUNCTION mesh_internal.edited_parent(r mesh.resources, edits mesh_internal.part_edits[]) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  l    record;
  list jsonb;
BEGIN
  FOR l IN
    SELECT v, mesh_internal.located_list(v, r, e) AS path, array_agg(e ORDER BY e.id) AS edits
    FROM unnest(edits) e JOIN mesh_internal.editable_views v ON v.view = e.view GROUP BY v.view, path ORDER BY cardinality(v.list) DESC
  LOOP
    IF cardinality(l.path) > 1 AND r.spec #> l.path[:cardinality(l.path) - 1] IS NULL THEN
      RAISE foreign_key_violation USING MESSAGE = format('%s %s/%s has no %s at spec.%s[%s]', r.kind, r.namespace, r.name, mesh_internal.holder_of_list(l.v), l.path[1], l.path[2]);
    END IF;
    list := mesh_internal.edited_list(l.v, mesh_internal.items_of(r.spec #> l.path), l.edits);
    r.spec := CASE list WHEN '[]' THEN r.spec #- l.path ELSE jsonb_set(r.spec, l.path, list) END;
  END LOOP;
  RETURN r.spec;
END $$;

-- noted_edits takes the noted edits. To Postgres the table looks empty, and yet it must never be
-- read from end to end.
CREATE OR REPLACE FUNCTION mesh_internal.noted_edits() RETURNS mesh_internal.part_edits[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
  edits mesh_internal.part_edits[];
BEGIN
  WITH noted AS (DELETE FROM mesh_internal.part_edits p WHERE xid = pg_current_xact_id() RETURNING p)
  SELECT array_agg(p ORDER BY (p).id) INTO edits FROM noted;
  RETURN edits;
END $$;

-- write_parts writes the noted edits, in the order of the keys, so that two transactions never wait
-- for each other.
CREATE OR REPLACE FUNCTION mesh_internal.write_parts() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  edits   mesh_internal.part_edits[] := mesh_internal.noted_edits();
  edited  mesh.resources[]  := '{}';
  parent  record;
  locked  mesh.resources;
BEGIN
  FOR parent IN
    SELECT v.api_group, v.kind, e.namespace, e.parent AS name, array_agg(e) AS edits, bool_and(e.operation = 'insert') AS new
    FROM unnest(edits) e JOIN mesh_internal.editable_views v ON v.view = e.view GROUP BY 1, 2, 3, 4 ORDER BY 2, 1, 3, 4
  LOOP
    locked := mesh_internal.locked_resource(parent.api_group, parent.kind, parent.namespace, parent.name);
    IF locked.name IS NULL THEN
      PERFORM mesh_internal.refuse_orphan(parent.kind, parent.namespace, parent.name, parent.new);
    END IF;
    locked.spec := mesh_internal.edited_parent(locked, parent.edits);
    edited := edited || locked;
  END LOOP;
  UPDATE mesh.resources r SET spec = e.spec FROM unnest(edited) e
  WHERE r.kind = e.kind AND r.api_group = e.api_group AND r.namespace = e.namespace AND r.name = e.name AND r.spec <> e.spec;
  RETURN NULL;
END $$;

-- refuse_orphan refuses a part of a resource that does not exist, or no longer.
CREATE OR REPLACE FUNCTION mesh_internal.refuse_orphan(kind text, namespace text, name text, new boolean) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF new THEN
    RAISE foreign_key_violation USING MESSAGE = format('there is no %s %s/%s', kind, namespace, name), HINT = 'make it first, or check the name and the namespace';
  END IF;
  RAISE serialization_failure USING
    MESSAGE = format('could not serialize access: another transaction has deleted %s %s/%s since this statement began', kind, namespace, name),
    HINT    = 'run the transaction again';
END $$;
