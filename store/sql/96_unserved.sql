-- Services that nobody serves for now, though they have endpoints. Transactions are not told of them:
-- machines fall ill and get well without any. Of services and workloads in registries nothing is said.

-- workload_health has the WorkloadEntries by each of their labels, so that those of a selector are
-- found by its first, and not by looking at all.
CREATE OR REPLACE VIEW mesh_internal.workload_health AS
  SELECT w.namespace, w.labels, l.key, l.value, w.health
  FROM (
    SELECT r.namespace, mesh_internal.with_place(mesh_internal.holder_of(r.spec -> 'labels') || r.labels, r.spec ->> 'locality', r.spec ->> 'network') AS labels,
      mesh_internal.health_word(r.annotations ->> 'mesh.pgmesh.io/health') AS health
    FROM mesh.resources r WHERE r.kind = 'WorkloadEntry' AND r.api_group = 'networking.istio.io') w, jsonb_each(w.labels) l;

COMMENT ON VIEW mesh_internal.workload_health IS 'Internal. Read mesh.problems.';

-- selecting_services has the mesh's own ServiceEntries, with the labels that they select workloads by,
-- the first of these, and whether an endpoint that they list says how it is.
CREATE OR REPLACE VIEW mesh_internal.selecting_services AS
  SELECT r.kind, r.api_group, r.namespace, r.name, r.spec, s.selector, f.key, f.value, r.spec @? '$.endpoints[*].labels."mesh.pgmesh.io/health"' AS lists
  FROM mesh.resources r, LATERAL (SELECT mesh_internal.selector_of(r.spec, r.annotations) AS selector OFFSET 0) s
    LEFT JOIN LATERAL (SELECT l.key, l.value FROM jsonb_each(mesh_internal.holder_of(s.selector)) l LIMIT 1) f ON true
  WHERE r.kind = 'ServiceEntry' AND r.api_group = 'networking.istio.io';

COMMENT ON VIEW mesh_internal.selecting_services IS 'Internal. Read mesh.problems.';

-- ailing has those of them with an endpoint that is not well, of which there are few.
CREATE OR REPLACE VIEW mesh_internal.ailing AS
  SELECT * FROM mesh_internal.selecting_services s WHERE s.lists
  UNION ALL
  SELECT * FROM mesh_internal.selecting_services s WHERE NOT s.lists
    AND EXISTS (SELECT FROM mesh_internal.workload_health w WHERE w.health <> 'healthy' AND w.namespace = s.namespace AND w.key = s.key AND w.value = s.value AND w.labels @> s.selector);

COMMENT ON VIEW mesh_internal.ailing IS 'Internal. Read mesh.problems.';

-- unserved has those of which no endpoint takes requests.
CREATE OR REPLACE VIEW mesh_internal.unserved AS
  SELECT 'warning' AS severity, 'no-healthy-endpoint' AS code, s.kind, s.api_group, s.namespace, s.name, '' AS path,
    'none of its endpoints takes requests: ' || (
      SELECT string_agg(format('%s %s', c.n, c.health), ', ' ORDER BY c.health)
      FROM (SELECT b.health, count(*) AS n FROM mesh_internal.backends_of('', s.namespace, s.spec, s.selector, true) b GROUP BY 1) c) AS message,
    'clients are answered 503 until one is well: mcp-client machines list tells how each machine is and why; mesh-agent undrain takes a drain back' AS hint
  FROM mesh_internal.ailing s
  WHERE NOT EXISTS (SELECT FROM mesh_internal.workload_health w WHERE w.health = 'healthy' AND w.namespace = s.namespace AND w.key = s.key AND w.value = s.value AND w.labels @> s.selector)
    AND NOT EXISTS (SELECT FROM jsonb_path_query(s.spec, '$.endpoints[*]') e WHERE mesh_internal.health_word(e #>> '{labels,mesh.pgmesh.io/health}') = 'healthy')
    AND (s.selector IS NULL OR NOT (SELECT EXISTS (SELECT FROM mesh_internal.registries)) OR NOT mesh_internal.registries_choose(s.selector, s.namespace));

COMMENT ON VIEW mesh_internal.unserved IS 'Internal. Read mesh.problems.';
