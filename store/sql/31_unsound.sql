-- A stored resource was checked when it was written, by the rules of that time. It remembers which
-- those were. So an index finds what the current rules have not passed: resources older than the
-- rules, or that came around the triggers, from a dump for instance.

-- current_rules identifies the current rules.
CREATE OR REPLACE FUNCTION mesh_internal.current_rules() RETURNS int
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN (SELECT coalesce(max(rules), 0) FROM mesh.kinds);
END $$;

-- resource_problems returns everything that is wrong with a resource, except for its key.
CREATE OR REPLACE FUNCTION mesh_internal.resource_problems(r mesh.resources) RETURNS SETOF mesh_internal.problem
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN QUERY SELECT * FROM mesh_internal.check_text_map('metadata.labels', r.labels, 'label')
    UNION ALL SELECT * FROM mesh_internal.check_text_map('metadata.annotations', r.annotations, 'annotation');
  RETURN QUERY SELECT p.* FROM mesh.kinds k, mesh_internal.check_spec(k.type, r.spec, mesh_internal.meta(r.namespace, r.name, r.labels, r.annotations)) p
    WHERE k.kind = r.kind AND k.api_group = r.api_group;
END $$;

CREATE OR REPLACE VIEW mesh.unsound WITH (security_barrier) AS
  SELECT r.api_group, r.kind, r.namespace, r.name, p.path, p.reason, p.hint
  FROM mesh.resources r, mesh_internal.resource_problems(r) p
  WHERE (r.rules < (SELECT mesh_internal.current_rules()) OR r.rules > (SELECT mesh_internal.current_rules()))
    AND ((SELECT mesh_internal.sees_all()) OR r.namespace = ANY ((SELECT mesh_internal.readable_namespaces())::text[]));

COMMENT ON VIEW mesh.unsound IS 'What is wrong with stored resources that the current rules have not passed. A server keeps the earlier version of such a resource, if it has one.';
COMMENT ON COLUMN mesh.unsound.api_group IS 'The API group of the resource.';
COMMENT ON COLUMN mesh.unsound.kind IS 'The kind of the resource.';
COMMENT ON COLUMN mesh.unsound.namespace IS 'The namespace of the resource; empty for kinds without one.';
COMMENT ON COLUMN mesh.unsound.name IS 'The name of the resource.';
COMMENT ON COLUMN mesh.unsound.path IS 'The field with the problem; empty for the whole resource.';
COMMENT ON COLUMN mesh.unsound.reason IS 'What is wrong.';
COMMENT ON COLUMN mesh.unsound.hint IS 'What to do about it.';

-- recheck checks a batch of resources that the current rules have not passed, and marks those that
-- keep the rules with them, and others with 0. It returns the last one it saw; NULL at the end.
-- Resources that somebody is writing come last.
CREATE OR REPLACE FUNCTION mesh_internal.recheck(INOUT kind text, INOUT api_group text, INOUT namespace text, INOUT name text, OUT wrong bigint)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  in_force CONSTANT int := mesh_internal.current_rules();
  portion  mesh.resources[];
  sound    mesh.resources[];
  last     mesh.resources;
  at_end   boolean;
BEGIN
  portion := ARRAY(
    SELECT r FROM mesh.resources r
    WHERE (r.rules < in_force OR r.rules > in_force) AND (r.kind, r.api_group, r.namespace, r.name) > (recheck.kind, recheck.api_group, recheck.namespace, recheck.name)
    ORDER BY r.kind, r.api_group, r.namespace, r.name LIMIT 200 FOR NO KEY UPDATE SKIP LOCKED);
  last := portion[cardinality(portion)];
  at_end := portion = '{}';
  IF at_end THEN
    portion := ARRAY(SELECT r FROM mesh.resources r WHERE r.rules <> 0 AND (r.rules < in_force OR r.rules > in_force) LIMIT 1 FOR NO KEY UPDATE);
  END IF;
  sound := CASE WHEN mesh_internal.are_sound(portion) THEN portion
    ELSE ARRAY(SELECT p FROM unnest(portion) p WHERE mesh_internal.are_sound(ARRAY[p]) OR NOT EXISTS (SELECT FROM mesh_internal.resource_problems(p))) END;
  PERFORM mesh_internal.begin_own_work('numbering');
  IF cardinality(sound) < cardinality(portion) THEN
    UPDATE mesh.resources r SET rules = 0 FROM unnest(portion) p
      WHERE r.kind = p.kind AND r.api_group = p.api_group AND r.namespace = p.namespace AND r.name = p.name;
  END IF;
  UPDATE mesh.resources r SET rules = in_force FROM unnest(sound) s
    WHERE r.kind = s.kind AND r.api_group = s.api_group AND r.namespace = s.namespace AND r.name = s.name;
  PERFORM mesh_internal.end_own_work('numbering');
  wrong := cardinality(portion) - cardinality(sound);
  IF NOT at_end OR portion = '{}' THEN -- else it comes back to the end, for there may be more
    kind := last.kind;
    api_group := last.api_group;
    namespace := last.namespace;
    name := last.name;
  END IF;
END $$;

-- are_sound is the quick check for stored resources.
CREATE OR REPLACE FUNCTION mesh_internal.are_sound(resources mesh.resources[]) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  c       mesh_internal.changes;
  written mesh_internal.changes[];
  r       mesh.resources;
BEGIN
  FOREACH r IN ARRAY resources LOOP
    c.kind := r.kind;
    c.api_group := r.api_group;
    c.namespace := r.namespace;
    c.name := r.name;
    c.after_spec := r.spec;
    c.after_labels := r.labels;
    c.after_annotations := r.annotations;
    written := written || c;
  END LOOP;
  RETURN mesh_internal.is_sound(written);
END $$;
