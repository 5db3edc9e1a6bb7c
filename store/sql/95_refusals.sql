-- What proxies refuse, and what that was made from.

-- refusals_of returns what connected proxies refuse, or one of them, with the source that changed
-- last. One that there is not any more has no revision, and comes last. It is a function because
-- Postgres overestimates lists in columns so much that it would compile the query.
CREATE OR REPLACE FUNCTION mesh_internal.refusals_of(of_namespace text DEFAULT NULL, of_proxy text DEFAULT NULL)
RETURNS TABLE (namespace text, proxy text, node text, discovery text, type_url text, envoy_resource text, reason text, since timestamptz,
  source_group text, source_kind text, source_namespace text, source_name text, source_path text, revision bigint, author text, sources jsonb)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 100 SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT p.namespace, p.proxy, p.node, p.discovery, f.type_url, f.resource, f.reason, f.since, n.api_group, n.kind, n.namespace, n.name, n.path, n.revision, n.author, coalesce(a.sources, '[]')
  FROM mesh_internal.known_proxies p
    CROSS JOIN LATERAL jsonb_to_recordset(p.refusals) AS f (type_url text, resource text, reason text, since timestamptz, sources jsonb)
    LEFT JOIN LATERAL (
      SELECT jsonb_agg(s.source ORDER BY s.i) AS sources FROM jsonb_array_elements(f.sources) WITH ORDINALITY s (source, i)
      WHERE (SELECT mesh_internal.shows_all()) OR s.source ->> 'namespace' = ANY ((SELECT mesh_internal.shown_namespaces())::text[])) a ON true
    LEFT JOIN LATERAL (
      SELECT s.api_group, s.kind, s.namespace, s.name, s.path, t.revision, t.author
      FROM jsonb_to_recordset(a.sources) AS s (api_group text, kind text, namespace text, name text, path text)
        LEFT JOIN mesh.resources r ON (r.name, r.namespace, r.kind, r.api_group) = (s.name, s.namespace, s.kind, s.api_group)
        LEFT JOIN mesh_internal.transactions t ON t.xid = r.xid AND t.begun_at = r.updated_at
      ORDER BY t.revision DESC NULLS LAST LIMIT 1) n ON true
  WHERE p.refusals IS NOT NULL AND (of_namespace IS NULL OR p.namespace = of_namespace) AND (of_proxy IS NULL OR p.proxy = of_proxy);
END $$;

CREATE OR REPLACE VIEW mesh.refusals WITH (security_barrier) AS SELECT * FROM mesh_internal.refusals_of();

COMMENT ON VIEW mesh.refusals IS 'What connected proxies refuse: a row for each of Envoy''s resources, with what it was made from.';
COMMENT ON COLUMN mesh.refusals.namespace IS 'The namespace of the proxy.';
COMMENT ON COLUMN mesh.refusals.proxy IS 'Its id in the namespace.';
COMMENT ON COLUMN mesh.refusals.node IS 'The node id by which Envoy names itself.';
COMMENT ON COLUMN mesh.refusals.discovery IS 'The discovery that it is connected to.';
COMMENT ON COLUMN mesh.refusals.type_url IS 'The type of Envoy''s resource, such as type.googleapis.com/envoy.config.listener.v3.Listener.';
COMMENT ON COLUMN mesh.refusals.envoy_resource IS 'The name of Envoy''s resource.';
COMMENT ON COLUMN mesh.refusals.reason IS 'Why, in Envoy''s words.';
COMMENT ON COLUMN mesh.refusals.since IS 'When the proxy said so.';
COMMENT ON COLUMN mesh.refusals.source_group IS 'The API group of the resource of the mesh that it was made from: of several the one that changed last, and of those only that one may read. NULL, as the columns after it, if none is known.';
COMMENT ON COLUMN mesh.refusals.source_kind IS 'The kind of that resource.';
COMMENT ON COLUMN mesh.refusals.source_namespace IS 'The namespace of that resource; empty for kinds without one.';
COMMENT ON COLUMN mesh.refusals.source_name IS 'The name of that resource.';
COMMENT ON COLUMN mesh.refusals.source_path IS 'The field of that resource that it was made from, such as spec.configPatches[2]; NULL if it is not known which.';
COMMENT ON COLUMN mesh.refusals.revision IS 'The revision that last changed that resource.';
COMMENT ON COLUMN mesh.refusals.author IS 'Who made that change.';
COMMENT ON COLUMN mesh.refusals.sources IS 'All resources that it was made from and that one may read: a list of objects with api_group, kind, namespace, name and, where it is known, path.';
