-- What proxies refuse, and what that was made from.

-- refused_resources has a row for each resource of Envoy's that a connected proxy refuses.
CREATE OR REPLACE VIEW mesh_internal.refused_resources WITH (security_barrier) AS
  SELECT p.namespace, p.proxy, p.node, p.discovery, p.report, p.stream, p.runs, f.type_url, f.resource, f.reason, f.since, f.sources
  FROM mesh_internal.known_proxies p, LATERAL jsonb_to_recordset(p.refusals) AS f (type_url text, resource text, reason text, since timestamptz, sources jsonb);

COMMENT ON VIEW mesh_internal.refused_resources IS 'Internal. Read mesh.refusals.';

-- A source that there is not any more has no revision, and comes last.
CREATE OR REPLACE VIEW mesh.refusals WITH (security_barrier) AS
  SELECT f.namespace, f.proxy, f.node, f.discovery, f.type_url, f.resource AS envoy_resource, f.reason, f.since,
    n.api_group AS source_group, n.kind AS source_kind, n.namespace AS source_namespace, n.name AS source_name, n.revision, n.author, coalesce(a.sources, '[]') AS sources
  FROM mesh_internal.refused_resources f
    LEFT JOIN LATERAL (
      SELECT jsonb_agg(s.source ORDER BY s.i) AS sources FROM jsonb_array_elements(f.sources) WITH ORDINALITY s (source, i)
      WHERE (SELECT mesh_internal.shows_all()) OR s.source ->> 'namespace' = ANY ((SELECT mesh_internal.shown_namespaces())::text[])) a ON true
    LEFT JOIN LATERAL (
      SELECT s.api_group, s.kind, s.namespace, s.name, t.revision, t.author
      FROM jsonb_to_recordset(a.sources) AS s (api_group text, kind text, namespace text, name text)
        LEFT JOIN mesh.resources r ON (r.name, r.namespace, r.kind, r.api_group) = (s.name, s.namespace, s.kind, s.api_group)
        LEFT JOIN mesh_internal.transactions t ON t.xid = r.xid AND t.begun_at = r.updated_at
      ORDER BY t.revision DESC NULLS LAST LIMIT 1) n ON true;

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
COMMENT ON COLUMN mesh.refusals.revision IS 'The revision that last changed that resource.';
COMMENT ON COLUMN mesh.refusals.author IS 'Who made that change.';
COMMENT ON COLUMN mesh.refusals.sources IS 'All resources that it was made from and that one may read: a list of objects with api_group, kind, namespace and name.';
