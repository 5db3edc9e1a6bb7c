-- What selects nothing. Most of it is normal while a mesh is being set up, so transactions are not
-- told of it.

-- known_workloads are the workloads in resources, with the labels that select them. Other proxies
-- may join.
CREATE OR REPLACE VIEW mesh_internal.known_workloads AS
  SELECT w.namespace, mesh_internal.with_place(w.labels, w.locality, w.network) AS labels
  FROM (
    SELECT r.namespace, coalesce(r.spec -> 'labels', '{}') || r.labels AS labels, r.spec ->> 'locality' AS locality, r.spec ->> 'network' AS network
    FROM mesh.resources r WHERE r.kind = 'WorkloadEntry' AND r.api_group = 'networking.istio.io'
    UNION
    SELECT r.namespace, coalesce(e -> 'labels', '{}'), e ->> 'locality', e ->> 'network'
    FROM mesh.resources r, jsonb_path_query(r.spec -> 'endpoints', '$[*]') e WHERE r.kind = 'ServiceEntry' AND r.api_group = 'networking.istio.io') w;

COMMENT ON VIEW mesh_internal.known_workloads IS 'Internal. Read mesh.problems.';

CREATE OR REPLACE VIEW mesh_internal.selects_nothing AS
  WITH workloads AS MATERIALIZED (SELECT DISTINCT namespace, labels FROM mesh_internal.known_workloads)
  SELECT 'info' AS severity, 'selects-nothing' AS code, r.kind, r.api_group, r.namespace, r.name, s.path,
    'no WorkloadEntry or endpoint that is known has the labels ' || s.labels::text AS message, 'correct the labels, or wait for the workloads' AS hint
  FROM mesh_internal.every_resource r, LATERAL (
      SELECT r.spec #> '{selector,matchLabels}', 'spec.selector.matchLabels' WHERE r.kind <> 'Gateway'
      UNION ALL SELECT r.spec -> 'selector', 'spec.selector' WHERE r.kind = 'Gateway'
      UNION ALL SELECT r.spec #> '{workloadSelector,labels}', 'spec.workloadSelector.labels'
      UNION ALL SELECT r.spec #> '{workloadSelector,matchLabels}', 'spec.workloadSelector.matchLabels') AS s (labels, path)
  WHERE r.kind IN ('AuthorizationPolicy', 'RequestAuthentication', 'PeerAuthentication', 'Telemetry', 'WasmPlugin', 'ProxyConfig', 'TrafficExtension',
      'Sidecar', 'EnvoyFilter', 'DestinationRule', 'ServiceEntry', 'Gateway') AND r.api_group LIKE '%istio.io'
    AND jsonb_typeof(s.labels) = 'object' AND s.labels <> '{}'
    AND r.spec ?| '{selector,workloadSelector}' AND (r.own OR NOT mesh_internal.is_outranked(r.kind, r.api_group, r.namespace, r.name, r.registry))
    AND NOT EXISTS (SELECT FROM workloads w
      WHERE w.labels @> s.labels AND (w.namespace = r.namespace OR r.kind = 'Gateway' OR r.namespace = (SELECT mesh_internal.root_namespace())))
    AND (NOT (SELECT EXISTS (SELECT FROM mesh_internal.registries))
      OR NOT mesh_internal.registries_choose(s.labels, CASE WHEN r.kind <> 'Gateway' AND r.namespace <> (SELECT mesh_internal.root_namespace()) THEN r.namespace END));

COMMENT ON VIEW mesh_internal.selects_nothing IS 'Internal. Read mesh.problems.';

-- For hosts with known endpoints, the subsets that none of these is in. A list of labels contains
-- another if one of its items contains the other's.
CREATE OR REPLACE VIEW mesh_internal.empty_subsets AS
  WITH endpoints AS MATERIALIZED (
    SELECT lower(h #>> '{}') AS host, (
        SELECT jsonb_agg(mesh_internal.with_place(coalesce(e -> 'labels', '{}'), e ->> 'locality', e ->> 'network')) FROM jsonb_path_query(r.spec -> 'endpoints', '$[*]') e) AS labels
    FROM mesh.resources r, jsonb_path_query(r.spec -> 'hosts', '$[*]') h
    WHERE r.kind = 'ServiceEntry' AND r.api_group = 'networking.istio.io' AND r.spec -> 'endpoints' <> '[]'
    UNION ALL
    SELECT lower(h #>> '{}'), jsonb_build_array(mesh_internal.with_place(coalesce(w.spec -> 'labels', '{}') || w.labels, w.spec ->> 'locality', w.spec ->> 'network'))
    FROM mesh.resources r
      JOIN mesh.resources w ON w.kind = 'WorkloadEntry' AND w.api_group = r.api_group AND w.namespace = r.namespace
        AND CASE WHEN mesh_internal.selects_by_place(r.spec #> '{workloadSelector,labels}')
          THEN mesh_internal.with_place(coalesce(w.spec -> 'labels', '{}') || w.labels, w.spec ->> 'locality', w.spec ->> 'network')
          ELSE coalesce(w.spec -> 'labels', '{}') || w.labels END @> (r.spec #> '{workloadSelector,labels}'),
      jsonb_path_query(r.spec -> 'hosts', '$[*]') h
    WHERE r.kind = 'ServiceEntry' AND r.api_group = 'networking.istio.io' AND r.spec ? 'workloadSelector'
  ), rules AS MATERIALIZED (
    SELECT r.kind, r.api_group, r.namespace, r.name, mesh_internal.full_host(r.spec ->> 'host', r.namespace) AS host, s.v ->> 'name' AS subset, s.v -> 'labels' AS labels, s.i
    FROM mesh_internal.every_resource r, jsonb_path_query(r.spec -> 'subsets', '$[*]') WITH ORDINALITY AS s (v, i)
    WHERE r.kind = 'DestinationRule' AND r.api_group = 'networking.istio.io' AND s.v -> 'labels' <> '{}'
      AND (r.own OR NOT mesh_internal.is_outranked(r.kind, r.api_group, r.namespace, r.name, r.registry))
  )
  SELECT 'warning' AS severity, 'empty-subset' AS code, d.kind, d.api_group, d.namespace, d.name, 'spec.subsets[' || d.i - 1 || '].labels' AS path,
    format('no endpoint of the host "%s" is in subset "%s"', d.host, d.subset) AS message, 'correct the labels of the subset, or of the endpoints' AS hint
  FROM rules d
  WHERE NOT EXISTS (SELECT FROM endpoints e WHERE e.host = d.host AND e.labels @> jsonb_build_array(d.labels))
    AND CASE WHEN (SELECT EXISTS (SELECT FROM mesh_internal.registries)) THEN NOT mesh_internal.serve_subset(d.host, d.labels) ELSE d.host IN (SELECT e.host FROM endpoints e) END;

COMMENT ON VIEW mesh_internal.empty_subsets IS 'Internal. Read mesh.problems.';
