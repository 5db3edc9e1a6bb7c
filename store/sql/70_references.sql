-- What resources say of each other, as rows. The functions read the specs; mesh_internal.links
-- keeps the result. 69_references.sql reads what resources name. The functions here read what
-- resources make, for others to name, and what they claim.

-- exported returns the namespaces that may see a resource; everybody if it does not say. Postgres
-- inlines it, so most resources, which do not say, cost no call.
CREATE OR REPLACE FUNCTION mesh_internal.exported(export_to jsonb, namespace text) RETURNS text[]
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN jsonb_typeof(export_to) = 'array' AND export_to <> '[]' THEN mesh_internal.export_list(export_to, namespace) ELSE '{*}' END
$$;

CREATE OR REPLACE FUNCTION mesh_internal.export_list(export_to jsonb, namespace text) RETURNS text[]
LANGUAGE sql IMMUTABLE AS $$
  SELECT ARRAY(SELECT CASE item WHEN '.' THEN namespace ELSE item END FROM jsonb_array_elements_text(export_to) item)
$$;

-- is_within reports whether a wildcard covers every name that a host stands for.
CREATE OR REPLACE FUNCTION mesh_internal.is_within(host text, wildcard text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
  SELECT left(wildcard, 1) = '*' AND right(ltrim(host, '*'), length(wildcard) - 1) = substr(wildcard, 2)
$$;

-- overlap reports whether two lists of namespaces have one in common.
CREATE OR REPLACE FUNCTION mesh_internal.overlap(a text[], b text[]) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
  SELECT a && b OR '*' = ANY (a) OR '*' = ANY (b)
$$;

CREATE OR REPLACE FUNCTION mesh_internal.links_of_virtual_service(namespace text, spec jsonb)
RETURNS TABLE (role text, target text, part text, port int, scope text[], detail jsonb, path text)
LANGUAGE sql IMMUTABLE AS $$
  SELECT 'claim', mesh_internal.full_host(h #>> '{}', namespace), mesh_internal.full_gateway(g #>> '{}', namespace), NULL::int, e.scope, NULL::jsonb, 'spec.hosts[' || i - 1 || ']'
  FROM (SELECT mesh_internal.exported(spec -> 'exportTo', namespace) OFFSET 0) AS e (scope), jsonb_path_query(spec -> 'hosts', '$[*]') WITH ORDINALITY AS hosts (h, i),
    jsonb_path_query(coalesce(nullif(nullif(spec -> 'gateways', 'null'), '[]'), '["mesh"]'), '$[*]') AS gateways (g)
$$;

-- A DestinationRule makes its subsets, and has one more row, without a part, for its host.
CREATE OR REPLACE FUNCTION mesh_internal.links_of_destination_rule(namespace text, spec jsonb)
RETURNS TABLE (role text, target text, part text, port int, scope text[], detail jsonb, path text)
LANGUAGE sql IMMUTABLE AS $$
  SELECT 'rule', mesh_internal.full_host(spec ->> 'host', namespace), p.part, NULL::int,
    CASE WHEN jsonb_typeof(spec -> 'workloadSelector') = 'object' THEN ARRAY[namespace] ELSE mesh_internal.exported(spec -> 'exportTo', namespace) END,
    jsonb_build_object('selector', spec #> '{workloadSelector,matchLabels}', 'policy', spec ? 'trafficPolicy'), p.path
  FROM (
    SELECT '', 'spec.host' UNION ALL
    SELECT s ->> 'name', 'spec.subsets[' || i - 1 || '].name' FROM jsonb_path_query(spec -> 'subsets', '$[*]') WITH ORDINALITY AS subsets (s, i)) AS p (part, path)
  WHERE spec ->> 'host' <> '' AND p.part IS NOT NULL
$$;

-- listener_class decides whether services can share an address and a port. HTTP is told apart by
-- hosts, and TLS by server names; where the server speaks first, nothing tells connections apart.
-- What has no class shares with all.
CREATE OR REPLACE FUNCTION mesh_internal.listener_class(protocol text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN upper(protocol) IN ('HTTP', 'HTTP2', 'GRPC', 'GRPC-WEB') THEN 'http' WHEN upper(protocol) IN ('HTTPS', 'TLS') THEN 'tls'
    WHEN upper(protocol) IN ('TCP', 'REDIS') THEN 'tcp' WHEN upper(protocol) IN ('MONGO', 'MYSQL') THEN 'greeting' END
$$;

-- The details are what proxies compare where entries share a host. Empty labels and lists count as
-- none, and exportTo counts as written, in any order.
DROP FUNCTION IF EXISTS mesh_internal.links_of_service_entry(text, jsonb);
CREATE OR REPLACE FUNCTION mesh_internal.links_of_service_entry(namespace text, spec jsonb, labels jsonb)
RETURNS TABLE (role text, target text, part text, port int, scope text[], detail jsonb, path text)
LANGUAGE sql IMMUTABLE AS $$
  SELECT 'service', lower(h #>> '{}'), '', NULL::int, mesh_internal.exported(spec -> 'exportTo', namespace), d.detail, 'spec.hosts[' || i - 1 || ']'
  FROM (SELECT jsonb_strip_nulls(jsonb_build_object(
      'ports', coalesce((SELECT jsonb_object_agg(p ->> 'number', upper(coalesce(p ->> 'protocol', ''))) FROM jsonb_path_query(spec -> 'ports', '$[*]') p WHERE p ->> 'number' IS NOT NULL), '{}'),
      'resolution', coalesce(spec ->> 'resolution', 'NONE'), 'location', coalesce(spec ->> 'location', 'MESH_EXTERNAL'),
      'metadata.labels', nullif(labels, '{}'), 'workloadSelector', nullif(spec #> '{workloadSelector,labels}', '{}'),
      'exportTo', CASE jsonb_typeof(spec -> 'exportTo') WHEN 'array' THEN (SELECT jsonb_agg(DISTINCT e) FROM jsonb_array_elements(spec -> 'exportTo') e) END)) OFFSET 0) AS d (detail),
    jsonb_path_query(spec -> 'hosts', '$[*]') WITH ORDINALITY AS hosts (h, i)
  UNION ALL
  SELECT 'address', a #>> '{}', (p ->> 'number') || ' ' || mesh_internal.listener_class(p ->> 'protocol'), NULL, mesh_internal.exported(spec -> 'exportTo', namespace),
    jsonb_build_object('hosts', spec -> 'hosts'), 'spec.addresses[' || i - 1 || ']'
  FROM jsonb_path_query(spec -> 'addresses', '$[*]') WITH ORDINALITY AS addresses (a, i), jsonb_path_query(spec -> 'ports', '$[*]') p
  WHERE p ->> 'number' IS NOT NULL AND mesh_internal.listener_class(p ->> 'protocol') IS NOT NULL
$$;

-- port_class returns what two protocols must have in common to share a port of a gateway.
CREATE OR REPLACE FUNCTION mesh_internal.port_class(protocol text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN upper(protocol) IN ('HTTP', 'HTTP2', 'GRPC', 'GRPC-WEB', 'HTTP_PROXY') THEN 'http'
    WHEN upper(protocol) IN ('HTTPS', 'TLS') THEN 'tls' ELSE 'tcp' END
$$;

CREATE OR REPLACE FUNCTION mesh_internal.links_of_istio_gateway(namespace text, spec jsonb)
RETURNS TABLE (role text, target text, part text, port int, scope text[], detail jsonb, path text)
LANGUAGE sql IMMUTABLE AS $$
  SELECT 'server', lower(regexp_replace(h.v #>> '{}', '^.*/', '')), s.v #>> '{port,number}', NULL::int,
    CASE split_part(h.v #>> '{}', '/', 1) WHEN h.v #>> '{}' THEN '{*}' WHEN '.' THEN ARRAY[namespace] ELSE ARRAY[split_part(h.v #>> '{}', '/', 1)] END,
    d.detail, 'spec.servers[' || s.i - 1 || '].hosts[' || h.i - 1 || ']'
  FROM jsonb_path_query(spec -> 'servers', '$[*]') WITH ORDINALITY AS s (v, i),
    LATERAL (SELECT jsonb_build_object('selector', coalesce(spec -> 'selector', '{}'), 'bind', coalesce(s.v ->> 'bind', ''),
      'class', mesh_internal.port_class(s.v #>> '{port,protocol}'), 'passes', coalesce(s.v #>> '{tls,mode}', '') LIKE '%PASSTHROUGH')) AS d (detail),
    jsonb_path_query(s.v -> 'hosts', '$[*]') WITH ORDINALITY AS h (v, i)
  WHERE s.v #>> '{port,number}' IS NOT NULL
  UNION ALL
  SELECT 'port', s.v #>> '{port,number}', mesh_internal.port_class(s.v #>> '{port,protocol}'), NULL, NULL,
    jsonb_build_object('selector', coalesce(spec -> 'selector', '{}'), 'bind', coalesce(s.v ->> 'bind', '')), 'spec.servers[' || s.i - 1 || '].port'
  FROM jsonb_path_query(spec -> 'servers', '$[*]') WITH ORDINALITY AS s (v, i)
  WHERE s.v #>> '{port,number}' IS NOT NULL
$$;

-- A namespace has one resource without a selector of some kinds, for all its workloads.
CREATE OR REPLACE FUNCTION mesh_internal.links_of_default(namespace text, spec jsonb)
RETURNS TABLE (role text, target text, part text, port int, scope text[], detail jsonb, path text)
LANGUAGE sql IMMUTABLE AS $$
  SELECT 'default', namespace, '', NULL::int, NULL::text[], NULL::jsonb, 'metadata.name'
  WHERE coalesce(spec #> '{selector,matchLabels}', spec #> '{workloadSelector,labels}', '{}') = '{}' AND NOT spec ?| '{targetRef,targetRefs}'
$$;

-- The listeners of a Gateway of the Gateway API, and from where routes may attach to each. What a
-- selector of namespaces selects is not known here.
CREATE OR REPLACE FUNCTION mesh_internal.links_of_listeners(namespace text, name text, spec jsonb)
RETURNS TABLE (role text, target text, part text, port int, scope text[], detail jsonb, path text)
LANGUAGE sql IMMUTABLE AS $$
  SELECT 'listener', namespace || '/' || name, coalesce(l.v ->> 'name', ''), (l.v ->> 'port')::int,
    CASE coalesce(l.v #>> '{allowedRoutes,namespaces,from}', 'Same') WHEN 'Same' THEN ARRAY[namespace] WHEN 'None' THEN '{}' ELSE '{*}' END,
    NULL::jsonb, 'spec.listeners[' || l.i - 1 || ']'
  FROM jsonb_path_query(spec -> 'listeners', '$[*]') WITH ORDINALITY AS l (v, i)
$$;

-- A grant has a row for each pair of who may refer and what they may refer to; * is any name.
CREATE OR REPLACE FUNCTION mesh_internal.links_of_reference_grant(namespace text, spec jsonb)
RETURNS TABLE (role text, target text, part text, port int, scope text[], detail jsonb, path text)
LANGUAGE sql IMMUTABLE AS $$
  SELECT 'grant', namespace || '/' || coalesce(nullif(t.v ->> 'name', ''), '*'), t.v ->> 'kind', NULL::int, ARRAY[f.v ->> 'namespace'],
    jsonb_build_object('kind', f.v ->> 'kind'), 'spec.to[' || t.i - 1 || ']'
  FROM jsonb_path_query(spec -> 'from', '$[*]') AS f (v), jsonb_path_query(spec -> 'to', '$[*]') WITH ORDINALITY AS t (v, i)
$$;

-- What others name by its key has a row for itself. Delegates are for those that they are exported
-- to.
CREATE OR REPLACE FUNCTION mesh_internal.links_of_key(kind text, namespace text, name text, spec jsonb)
RETURNS TABLE (role text, target text, part text, port int, scope text[], detail jsonb, path text)
LANGUAGE sql IMMUTABLE AS $$
  SELECT 'is', namespace || '/' || name, kind, NULL::int, CASE kind WHEN 'VirtualService' THEN mesh_internal.exported(spec -> 'exportTo', namespace) END, NULL::jsonb, 'metadata.name'
  WHERE kind IN ('Gateway', 'ListenerSet', 'GatewayClass', 'ServiceEntry', 'InferencePool', 'XBackend')
    OR kind = 'VirtualService' AND coalesce(spec -> 'hosts', '[]') = '[]'
$$;

-- links_of returns all rows of one resource.
DROP FUNCTION IF EXISTS mesh_internal.links_of(text, text, text, text, jsonb);
CREATE OR REPLACE FUNCTION mesh_internal.links_of(kind text, api_group text, namespace text, name text, spec jsonb, labels jsonb)
RETURNS TABLE (role text, target text, part text, port int, scope text[], detail jsonb, path text)
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
BEGIN
  IF spec IS NULL THEN
    RETURN;
  END IF;
  RETURN QUERY SELECT * FROM mesh_internal.links_of_key(kind, namespace, name, spec);
  RETURN QUERY SELECT * FROM mesh_internal.names_in(kind, api_group, namespace, spec);
  CASE
  WHEN kind = 'VirtualService' THEN RETURN QUERY SELECT * FROM mesh_internal.links_of_virtual_service(namespace, spec);
  WHEN kind = 'DestinationRule' THEN RETURN QUERY SELECT * FROM mesh_internal.links_of_destination_rule(namespace, spec);
  WHEN kind = 'ServiceEntry' THEN RETURN QUERY SELECT * FROM mesh_internal.links_of_service_entry(namespace, spec, labels);
  WHEN kind = 'Gateway' AND api_group = 'networking.istio.io' THEN RETURN QUERY SELECT * FROM mesh_internal.links_of_istio_gateway(namespace, spec);
  WHEN kind IN ('Gateway', 'ListenerSet') THEN RETURN QUERY SELECT * FROM mesh_internal.links_of_listeners(namespace, name, spec);
  WHEN kind = 'ReferenceGrant' THEN RETURN QUERY SELECT * FROM mesh_internal.links_of_reference_grant(namespace, spec);
  WHEN kind IN ('Sidecar', 'PeerAuthentication', 'Telemetry') THEN RETURN QUERY SELECT * FROM mesh_internal.links_of_default(namespace, spec);
  ELSE
  END CASE;
END $$;
