-- Which route stands how at which parent: what routes name, beside what discoveries decide of it.

-- routes_at_parents returns the parents of the routes that the acting role may be told of. They are
-- read from the specs, so that a route is there before a discovery has decided on it.
CREATE OR REPLACE FUNCTION mesh_internal.routes_at_parents()
RETURNS TABLE (api_group text, kind text, namespace text, name text, "position" integer, parent jsonb, conditions jsonb, listeners text[], origin text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
  routes CONSTANT text[] := '{HTTPRoute.gateway.networking.k8s.io,GRPCRoute.gateway.networking.k8s.io,TLSRoute.gateway.networking.k8s.io,TCPRoute.gateway.networking.k8s.io,UDPRoute.gateway.networking.k8s.io}';
BEGIN
  RETURN QUERY
  WITH chosen AS MATERIALIZED (SELECT * FROM mesh_internal.chosen_resources(routes, NULL, NULL)),
  decided AS MATERIALIZED (SELECT * FROM mesh_internal.decided_statuses(routes, NULL, NULL, NULL))
  SELECT c.api_group, c.kind, c.namespace, c.name, (p.i - 1)::integer, p.value,
    CASE WHEN s.value IS NOT NULL THEN mesh_internal.dated_conditions(s.value -> 'conditions', NULL, mesh_internal.condition_since(d.decided, c.revision)) END,
    CASE WHEN s.value ? 'listeners' THEN ARRAY(SELECT jsonb_array_elements_text(s.value -> 'listeners')) END, c.registry
  FROM chosen c LEFT JOIN decided d USING (kind, api_group, namespace, name)
    CROSS JOIN LATERAL (
      SELECT r.spec FROM mesh.resources r
      WHERE c.registry IS NULL AND r.kind = c.kind AND r.api_group = c.api_group AND r.namespace = c.namespace AND r.name = c.name
      UNION ALL
      SELECT e.spec FROM mesh_internal.registry_entries e
      WHERE e.registry = c.registry AND e.kind = c.kind AND e.api_group = c.api_group AND e.namespace = c.namespace AND e.name = c.name OFFSET 0) r
    CROSS JOIN LATERAL jsonb_array_elements(mesh_internal.items_of(r.spec -> 'parentRefs')) WITH ORDINALITY p (value, i)
    LEFT JOIN LATERAL (
      SELECT u.value FROM jsonb_array_elements(d.status -> 'parents') u
      WHERE jsonb_strip_nulls(u.value -> 'parentRef') = jsonb_strip_nulls(p.value) LIMIT 1) s ON true;
END $$;

-- holding reports whether a condition holds; NULL if it is not there.
CREATE OR REPLACE FUNCTION mesh_internal.holding(conditions jsonb, type text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
  SELECT jsonb_path_query_first(conditions, '$[*] ? (@.type == $type)', jsonb_build_object('type', type)) ->> 'status' = 'True'
$$;

CREATE OR REPLACE VIEW mesh.attached_routes WITH (security_barrier) AS
  SELECT api_group, kind, namespace, name, position,
    coalesce(parent ->> 'group', 'gateway.networking.k8s.io') AS parent_group, coalesce(parent ->> 'kind', 'Gateway') AS parent_kind,
    coalesce(parent ->> 'namespace', namespace) AS parent_namespace, parent ->> 'name' AS parent_name,
    parent ->> 'sectionName' AS section_name, CASE WHEN mesh_internal.whole_number(parent -> 'port') <= 65535 THEN mesh_internal.whole_number(parent -> 'port')::integer END AS port,
    CASE WHEN mesh_internal.holding(conditions, 'Accepted') THEN listeners WHEN conditions IS NOT NULL THEN '{}' END AS listeners,
    mesh_internal.holding(conditions, 'Accepted') AS accepted, mesh_internal.holding(conditions, 'ResolvedRefs') AS resolved_refs, conditions, origin
  FROM mesh_internal.routes_at_parents();

COMMENT ON VIEW mesh.attached_routes IS 'How routes of the Gateway API stand at what they are attached to, a row for each entry of parentRefs of each HTTPRoute, GRPCRoute, TLSRoute, TCPRoute and UDPRoute, of the database and of registries. It is read-only: discoveries decide it.';
COMMENT ON COLUMN mesh.attached_routes.api_group IS 'The API group of the route.';
COMMENT ON COLUMN mesh.attached_routes.kind IS 'The kind of the route.';
COMMENT ON COLUMN mesh.attached_routes.namespace IS 'The namespace of the route.';
COMMENT ON COLUMN mesh.attached_routes.name IS 'The name of the route.';
COMMENT ON COLUMN mesh.attached_routes.position IS 'Which it is in parentRefs, from 0.';
COMMENT ON COLUMN mesh.attached_routes.parent_group IS 'The API group of the parent.';
COMMENT ON COLUMN mesh.attached_routes.parent_kind IS 'The kind of the parent: Gateway, ListenerSet, Service or ServiceEntry.';
COMMENT ON COLUMN mesh.attached_routes.parent_namespace IS 'The namespace of the parent.';
COMMENT ON COLUMN mesh.attached_routes.parent_name IS 'The name of the parent.';
COMMENT ON COLUMN mesh.attached_routes.section_name IS 'The listener that the route asks for; NULL if it asks for none in particular.';
COMMENT ON COLUMN mesh.attached_routes.port IS 'The port that the route asks for; NULL if it asks for none in particular.';
COMMENT ON COLUMN mesh.attached_routes.listeners IS 'The listeners of the Gateway or the ListenerSet that take the route, by name; empty if none does. NULL for parents that have no listeners, and where accepted is NULL.';
COMMENT ON COLUMN mesh.attached_routes.accepted IS 'Whether the parent takes the route. NULL while no discovery reports that has the route as it is, and where the parent is not there or is another controller''s.';
COMMENT ON COLUMN mesh.attached_routes.resolved_refs IS 'Whether all backends are there and may be named, of what comes through this parent. NULL where accepted is NULL.';
COMMENT ON COLUMN mesh.attached_routes.conditions IS 'The conditions in the API''s own shape, with reasons and messages, as mesh.resource_status has them. NULL where accepted is NULL.';
COMMENT ON COLUMN mesh.attached_routes.origin IS 'The registry that has the route, as in mesh.registries; NULL if it is the mesh''s own.';
