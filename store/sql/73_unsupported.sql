-- What resources say and discovery does not act on.

-- places follows steps through lists, and through maps with *, to each value that they lead to.
CREATE OR REPLACE FUNCTION mesh_internal.places(value jsonb, steps text[], at text) RETURNS TABLE (place text, found jsonb)
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF steps = '{}' THEN
    RETURN QUERY SELECT at, value;
  ELSIF jsonb_typeof(value) = 'array' THEN
    RETURN QUERY SELECT p.* FROM jsonb_array_elements(value) WITH ORDINALITY AS item (value, i), mesh_internal.places(item.value, steps, at || '[' || item.i - 1 || ']') p;
  ELSIF jsonb_typeof(value) = 'object' THEN
    RETURN QUERY SELECT p.* FROM jsonb_each(value) AS member (key, value), mesh_internal.places(member.value, steps[2:], mesh_internal.member_path(at, member.key)) p
      WHERE steps[1] IN (member.key, '*');
  END IF;
END $$;

-- unsupported_message says who does not act on something: other readers, such as an istiod, may
-- act. The programs use the same words.
CREATE OR REPLACE FUNCTION mesh_internal.unsupported_message(reason text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT 'pgmesh''s discovery does not act on it: ' || reason $$;

CREATE OR REPLACE FUNCTION mesh_internal.unsupported_hint(hint text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT coalesce(hint, 'leave it out, unless it is for another reader, such as an istiod') $$;

CREATE OR REPLACE VIEW mesh_internal.unsupported_uses AS
  SELECT 'warning' AS severity, 'unsupported' AS code, r.kind, r.api_group, r.namespace, r.name, CASE WHEN u.steps = '{}' THEN '' ELSE p.place END AS path,
    mesh_internal.unsupported_message(u.reason) AS message, mesh_internal.unsupported_hint(u.hint) AS hint
  FROM mesh_internal.unsupported u
  JOIN mesh_internal.every_resource r USING (kind, api_group), mesh_internal.places(r.spec, u.steps, 'spec') p
  WHERE r.spec @? u.found AND (u.condition IS NULL OR p.found @@ u.condition)
    AND (r.own OR NOT mesh_internal.is_outranked(u.kind, u.api_group, r.namespace, r.name, r.registry)); -- of u, so that this is asked last

COMMENT ON VIEW mesh_internal.unsupported_uses IS 'Internal. Read mesh.problems.';

-- new_unsupported lists what a transaction newly says that discovery does not act on.
CREATE OR REPLACE FUNCTION mesh_internal.new_unsupported(of bigint) RETURNS mesh_internal.link_problem[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN ARRAY(SELECT ('warning', 'unsupported', c.kind, c.api_group, c.namespace, c.name, CASE WHEN u.steps = '{}' THEN '' ELSE p.place END, mesh_internal.unsupported_message(u.reason),
      mesh_internal.unsupported_hint(u.hint))::mesh_internal.link_problem
    FROM mesh_internal.changes c JOIN mesh_internal.unsupported u USING (kind, api_group), mesh_internal.places(c.after_spec, u.steps, 'spec') p
    WHERE c.transaction_id = of AND c.after_spec @? u.found AND (u.condition IS NULL OR p.found @@ u.condition)
      AND NOT EXISTS (SELECT FROM mesh_internal.places(c.before_spec, u.steps, 'spec') was WHERE was.found IS NOT NULL AND (u.condition IS NULL OR was.found @@ u.condition))
    LIMIT 1000);
END $$;
