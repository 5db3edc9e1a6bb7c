-- Made by go generate from kinds/reference/references.yaml, which says what each kind names and how; do not edit it.
-- A row is what a resource names in one place, as mesh_internal.links has it.

CREATE OR REPLACE FUNCTION mesh_internal.names_in_authorization_policy(namespace text, spec jsonb)
RETURNS TABLE (role text, target text, part text, port int, scope text[], detail jsonb, path text)
LANGUAGE sql IMMUTABLE AS $$
  SELECT n.* FROM mesh_internal.attachment_named('attachment', namespace, spec -> 'targetRef', 'spec.targetRef') n
  UNION ALL SELECT n.* FROM jsonb_path_query(spec -> 'targetRefs', '$[*]') WITH ORDINALITY AS l1 (v, i), mesh_internal.attachment_named('attachment', namespace, l1.v, 'spec.targetRefs[' || l1.i - 1 || ']') n
$$;

CREATE OR REPLACE FUNCTION mesh_internal.names_in_destination_rule(namespace text, spec jsonb)
RETURNS TABLE (role text, target text, part text, port int, scope text[], detail jsonb, path text)
LANGUAGE sql IMMUTABLE AS $$
  SELECT n.* FROM mesh_internal.credential_named('credential', namespace, spec -> 'trafficPolicy' -> 'tls' -> 'credentialName', 'spec.trafficPolicy.tls.credentialName') n
  UNION ALL SELECT n.* FROM jsonb_path_query(spec -> 'trafficPolicy' -> 'portLevelSettings', '$[*]') WITH ORDINALITY AS l2 (v, i), mesh_internal.credential_named('credential', namespace, l2.v -> 'tls' -> 'credentialName', 'spec.trafficPolicy.portLevelSettings[' || l2.i - 1 || '].tls.credentialName') n
  UNION ALL SELECT x1.* FROM jsonb_path_query(spec -> 'subsets', '$[*]') WITH ORDINALITY AS l1 (v, i), LATERAL (
      SELECT n.* FROM mesh_internal.credential_named('credential', namespace, l1.v -> 'trafficPolicy' -> 'tls' -> 'credentialName', 'spec.subsets[' || l1.i - 1 || '].trafficPolicy.tls.credentialName') n
      UNION ALL SELECT n.* FROM jsonb_path_query(l1.v -> 'trafficPolicy' -> 'portLevelSettings', '$[*]') WITH ORDINALITY AS l3 (v, i), mesh_internal.credential_named('credential', namespace, l3.v -> 'tls' -> 'credentialName', 'spec.subsets[' || l1.i - 1 || '].trafficPolicy.portLevelSettings[' || l3.i - 1 || '].tls.credentialName') n
    ) AS x1
$$;

CREATE OR REPLACE FUNCTION mesh_internal.names_in_envoy_filter(namespace text, spec jsonb)
RETURNS TABLE (role text, target text, part text, port int, scope text[], detail jsonb, path text)
LANGUAGE sql IMMUTABLE AS $$
  SELECT n.* FROM jsonb_path_query(spec -> 'targetRefs', '$[*]') WITH ORDINALITY AS l1 (v, i), mesh_internal.attachment_named('attachment', namespace, l1.v, 'spec.targetRefs[' || l1.i - 1 || ']') n
$$;

CREATE OR REPLACE FUNCTION mesh_internal.names_in_istio_gateway(namespace text, spec jsonb)
RETURNS TABLE (role text, target text, part text, port int, scope text[], detail jsonb, path text)
LANGUAGE sql IMMUTABLE AS $$
  SELECT x1.* FROM jsonb_path_query(spec -> 'servers', '$[*]') WITH ORDINALITY AS l1 (v, i), LATERAL (
      SELECT n.* FROM mesh_internal.credential_named('credential', namespace, l1.v -> 'tls' -> 'credentialName', 'spec.servers[' || l1.i - 1 || '].tls.credentialName') n
      UNION ALL SELECT n.* FROM mesh_internal.credential_named('credential', namespace, l1.v -> 'tls' -> 'caCertCredentialName', 'spec.servers[' || l1.i - 1 || '].tls.caCertCredentialName') n
      UNION ALL SELECT n.* FROM jsonb_path_query(l1.v -> 'tls' -> 'credentialNames', '$[*]') WITH ORDINALITY AS l3 (v, i), mesh_internal.credential_named('credential', namespace, l3.v, 'spec.servers[' || l1.i - 1 || '].tls.credentialNames[' || l3.i - 1 || ']') n
    ) AS x1
$$;

CREATE OR REPLACE FUNCTION mesh_internal.names_in_request_authentication(namespace text, spec jsonb)
RETURNS TABLE (role text, target text, part text, port int, scope text[], detail jsonb, path text)
LANGUAGE sql IMMUTABLE AS $$
  SELECT n.* FROM mesh_internal.attachment_named('attachment', namespace, spec -> 'targetRef', 'spec.targetRef') n
  UNION ALL SELECT n.* FROM jsonb_path_query(spec -> 'targetRefs', '$[*]') WITH ORDINALITY AS l1 (v, i), mesh_internal.attachment_named('attachment', namespace, l1.v, 'spec.targetRefs[' || l1.i - 1 || ']') n
$$;

CREATE OR REPLACE FUNCTION mesh_internal.names_in_sidecar(namespace text, spec jsonb)
RETURNS TABLE (role text, target text, part text, port int, scope text[], detail jsonb, path text)
LANGUAGE sql IMMUTABLE AS $$
  SELECT x.* FROM (SELECT mesh_internal.exported(spec -> 'exportTo', namespace) OFFSET 0) AS e (scope),
    LATERAL (SELECT mesh_internal.obeyed_by(e.scope, namespace) OFFSET 0) AS obeyed_by (scope), LATERAL (
    SELECT n.* FROM mesh_internal.full_host_named('route', namespace, spec -> 'outboundTrafficPolicy' -> 'egressProxy', obeyed_by.scope, 'spec.outboundTrafficPolicy.egressProxy') n
  ) AS x
$$;

CREATE OR REPLACE FUNCTION mesh_internal.names_in_telemetry(namespace text, spec jsonb)
RETURNS TABLE (role text, target text, part text, port int, scope text[], detail jsonb, path text)
LANGUAGE sql IMMUTABLE AS $$
  SELECT n.* FROM mesh_internal.attachment_named('attachment', namespace, spec -> 'targetRef', 'spec.targetRef') n
  UNION ALL SELECT n.* FROM jsonb_path_query(spec -> 'targetRefs', '$[*]') WITH ORDINALITY AS l1 (v, i), mesh_internal.attachment_named('attachment', namespace, l1.v, 'spec.targetRefs[' || l1.i - 1 || ']') n
$$;

CREATE OR REPLACE FUNCTION mesh_internal.names_in_traffic_extension(namespace text, spec jsonb)
RETURNS TABLE (role text, target text, part text, port int, scope text[], detail jsonb, path text)
LANGUAGE sql IMMUTABLE AS $$
  SELECT n.* FROM mesh_internal.pull_secret_named('credential', namespace, spec -> 'wasm' -> 'imagePullSecret', 'spec.wasm.imagePullSecret') n
  UNION ALL SELECT n.* FROM jsonb_path_query(spec -> 'targetRefs', '$[*]') WITH ORDINALITY AS l1 (v, i), mesh_internal.attachment_named('attachment', namespace, l1.v, 'spec.targetRefs[' || l1.i - 1 || ']') n
$$;

CREATE OR REPLACE FUNCTION mesh_internal.names_in_virtual_service(namespace text, spec jsonb)
RETURNS TABLE (role text, target text, part text, port int, scope text[], detail jsonb, path text)
LANGUAGE sql IMMUTABLE AS $$
  SELECT x.* FROM (SELECT mesh_internal.exported(spec -> 'exportTo', namespace) OFFSET 0) AS e (scope),
    LATERAL (SELECT mesh_internal.obeyed_by(e.scope, namespace) OFFSET 0) AS obeyed_by (scope), LATERAL (
    SELECT n.* FROM jsonb_path_query(spec -> 'gateways', '$[*]') WITH ORDINALITY AS l1 (v, i), mesh_internal.gateway_named('gateway', namespace, l1.v, 'spec.gateways[' || l1.i - 1 || ']') n
    UNION ALL SELECT x1.* FROM unnest('{http,tls,tcp}'::text[]) AS f1, jsonb_path_query(spec -> f1, '$[*]') WITH ORDINALITY AS l1 (v, i), LATERAL (
      SELECT n.* FROM jsonb_path_query(l1.v -> 'match', '$[*]') WITH ORDINALITY AS l2 (v, i), jsonb_path_query(l2.v -> 'gateways', '$[*]') WITH ORDINALITY AS l3 (v, i), mesh_internal.gateway_named('match', namespace, l3.v, 'spec.' || f1 || '[' || l1.i - 1 || '].match[' || l2.i - 1 || '].gateways[' || l3.i - 1 || ']') n
      UNION ALL SELECT n.* FROM unnest('{route,mirrors}'::text[]) AS f2, jsonb_path_query(l1.v -> f2, '$[*]') WITH ORDINALITY AS l2 (v, i), mesh_internal.destination_named('route', namespace, l2.v -> 'destination', obeyed_by.scope, 'spec.' || f1 || '[' || l1.i - 1 || '].' || f2 || '[' || l2.i - 1 || '].destination') n
      UNION ALL SELECT n.* FROM mesh_internal.destination_named('route', namespace, l1.v -> 'mirror', obeyed_by.scope, 'spec.' || f1 || '[' || l1.i - 1 || '].mirror') n
      UNION ALL SELECT n.* FROM mesh_internal.delegate_named('delegate', namespace, l1.v -> 'delegate', 'spec.' || f1 || '[' || l1.i - 1 || '].delegate') n
    ) AS x1
  ) AS x
$$;

CREATE OR REPLACE FUNCTION mesh_internal.names_in_wasm_plugin(namespace text, spec jsonb)
RETURNS TABLE (role text, target text, part text, port int, scope text[], detail jsonb, path text)
LANGUAGE sql IMMUTABLE AS $$
  SELECT n.* FROM mesh_internal.pull_secret_named('credential', namespace, spec -> 'imagePullSecret', 'spec.imagePullSecret') n
  UNION ALL SELECT n.* FROM mesh_internal.attachment_named('attachment', namespace, spec -> 'targetRef', 'spec.targetRef') n
  UNION ALL SELECT n.* FROM jsonb_path_query(spec -> 'targetRefs', '$[*]') WITH ORDINALITY AS l1 (v, i), mesh_internal.attachment_named('attachment', namespace, l1.v, 'spec.targetRefs[' || l1.i - 1 || ']') n
$$;

CREATE OR REPLACE FUNCTION mesh_internal.names_in_gateway(namespace text, spec jsonb)
RETURNS TABLE (role text, target text, part text, port int, scope text[], detail jsonb, path text)
LANGUAGE sql IMMUTABLE AS $$
  SELECT n.* FROM jsonb_path_query(spec -> 'listeners', '$[*]') WITH ORDINALITY AS l1 (v, i), jsonb_path_query(l1.v -> 'tls' -> 'certificateRefs', '$[*]') WITH ORDINALITY AS l3 (v, i), mesh_internal.secret_named('credential', namespace, l3.v, 'spec.listeners[' || l1.i - 1 || '].tls.certificateRefs[' || l3.i - 1 || ']') n
  UNION ALL SELECT n.* FROM mesh_internal.secret_named('credential', namespace, spec -> 'tls' -> 'backend' -> 'clientCertificateRef', 'spec.tls.backend.clientCertificateRef') n
$$;

CREATE OR REPLACE FUNCTION mesh_internal.names_in_http_route(namespace text, spec jsonb)
RETURNS TABLE (role text, target text, part text, port int, scope text[], detail jsonb, path text)
LANGUAGE sql IMMUTABLE AS $$
  SELECT n.* FROM jsonb_path_query(spec -> 'parentRefs', '$[*]') WITH ORDINALITY AS l1 (v, i), mesh_internal.attachment_named('parent', namespace, l1.v, 'spec.parentRefs[' || l1.i - 1 || ']') n
  UNION ALL SELECT x1.* FROM jsonb_path_query(spec -> 'rules', '$[*]') WITH ORDINALITY AS l1 (v, i), LATERAL (
      SELECT x2.* FROM jsonb_path_query(l1.v -> 'backendRefs', '$[*]') WITH ORDINALITY AS l2 (v, i), LATERAL (
        SELECT n.* FROM mesh_internal.backend_named('backend', namespace, l2.v, 'spec.rules[' || l1.i - 1 || '].backendRefs[' || l2.i - 1 || ']') n
        UNION ALL SELECT x3.* FROM jsonb_path_query(l2.v -> 'filters', '$[*]') WITH ORDINALITY AS l3 (v, i), LATERAL (
          SELECT n.* FROM mesh_internal.backend_named('backend', namespace, l3.v -> 'requestMirror' -> 'backendRef', 'spec.rules[' || l1.i - 1 || '].backendRefs[' || l2.i - 1 || '].filters[' || l3.i - 1 || '].requestMirror.backendRef') n
          UNION ALL SELECT n.* FROM mesh_internal.backend_named('backend', namespace, l3.v -> 'externalAuth' -> 'backendRef', 'spec.rules[' || l1.i - 1 || '].backendRefs[' || l2.i - 1 || '].filters[' || l3.i - 1 || '].externalAuth.backendRef') n
        ) AS x3
      ) AS x2
      UNION ALL SELECT x2.* FROM jsonb_path_query(l1.v -> 'filters', '$[*]') WITH ORDINALITY AS l2 (v, i), LATERAL (
        SELECT n.* FROM mesh_internal.backend_named('backend', namespace, l2.v -> 'requestMirror' -> 'backendRef', 'spec.rules[' || l1.i - 1 || '].filters[' || l2.i - 1 || '].requestMirror.backendRef') n
        UNION ALL SELECT n.* FROM mesh_internal.backend_named('backend', namespace, l2.v -> 'externalAuth' -> 'backendRef', 'spec.rules[' || l1.i - 1 || '].filters[' || l2.i - 1 || '].externalAuth.backendRef') n
      ) AS x2
    ) AS x1
$$;

CREATE OR REPLACE FUNCTION mesh_internal.names_in_grpc_route(namespace text, spec jsonb)
RETURNS TABLE (role text, target text, part text, port int, scope text[], detail jsonb, path text)
LANGUAGE sql IMMUTABLE AS $$
  SELECT n.* FROM jsonb_path_query(spec -> 'parentRefs', '$[*]') WITH ORDINALITY AS l1 (v, i), mesh_internal.attachment_named('parent', namespace, l1.v, 'spec.parentRefs[' || l1.i - 1 || ']') n
  UNION ALL SELECT x1.* FROM jsonb_path_query(spec -> 'rules', '$[*]') WITH ORDINALITY AS l1 (v, i), LATERAL (
      SELECT x2.* FROM jsonb_path_query(l1.v -> 'backendRefs', '$[*]') WITH ORDINALITY AS l2 (v, i), LATERAL (
        SELECT n.* FROM mesh_internal.backend_named('backend', namespace, l2.v, 'spec.rules[' || l1.i - 1 || '].backendRefs[' || l2.i - 1 || ']') n
        UNION ALL SELECT n.* FROM jsonb_path_query(l2.v -> 'filters', '$[*]') WITH ORDINALITY AS l3 (v, i), mesh_internal.backend_named('backend', namespace, l3.v -> 'requestMirror' -> 'backendRef', 'spec.rules[' || l1.i - 1 || '].backendRefs[' || l2.i - 1 || '].filters[' || l3.i - 1 || '].requestMirror.backendRef') n
      ) AS x2
      UNION ALL SELECT n.* FROM jsonb_path_query(l1.v -> 'filters', '$[*]') WITH ORDINALITY AS l2 (v, i), mesh_internal.backend_named('backend', namespace, l2.v -> 'requestMirror' -> 'backendRef', 'spec.rules[' || l1.i - 1 || '].filters[' || l2.i - 1 || '].requestMirror.backendRef') n
    ) AS x1
$$;

CREATE OR REPLACE FUNCTION mesh_internal.names_in_tcp_route(namespace text, spec jsonb)
RETURNS TABLE (role text, target text, part text, port int, scope text[], detail jsonb, path text)
LANGUAGE sql IMMUTABLE AS $$
  SELECT n.* FROM jsonb_path_query(spec -> 'parentRefs', '$[*]') WITH ORDINALITY AS l1 (v, i), mesh_internal.attachment_named('parent', namespace, l1.v, 'spec.parentRefs[' || l1.i - 1 || ']') n
  UNION ALL SELECT n.* FROM jsonb_path_query(spec -> 'rules', '$[*]') WITH ORDINALITY AS l1 (v, i), jsonb_path_query(l1.v -> 'backendRefs', '$[*]') WITH ORDINALITY AS l2 (v, i), mesh_internal.backend_named('backend', namespace, l2.v, 'spec.rules[' || l1.i - 1 || '].backendRefs[' || l2.i - 1 || ']') n
$$;

CREATE OR REPLACE FUNCTION mesh_internal.names_in_tls_route(namespace text, spec jsonb)
RETURNS TABLE (role text, target text, part text, port int, scope text[], detail jsonb, path text)
LANGUAGE sql IMMUTABLE AS $$
  SELECT n.* FROM jsonb_path_query(spec -> 'parentRefs', '$[*]') WITH ORDINALITY AS l1 (v, i), mesh_internal.attachment_named('parent', namespace, l1.v, 'spec.parentRefs[' || l1.i - 1 || ']') n
  UNION ALL SELECT n.* FROM jsonb_path_query(spec -> 'rules', '$[*]') WITH ORDINALITY AS l1 (v, i), jsonb_path_query(l1.v -> 'backendRefs', '$[*]') WITH ORDINALITY AS l2 (v, i), mesh_internal.backend_named('backend', namespace, l2.v, 'spec.rules[' || l1.i - 1 || '].backendRefs[' || l2.i - 1 || ']') n
$$;

CREATE OR REPLACE FUNCTION mesh_internal.names_in_udp_route(namespace text, spec jsonb)
RETURNS TABLE (role text, target text, part text, port int, scope text[], detail jsonb, path text)
LANGUAGE sql IMMUTABLE AS $$
  SELECT n.* FROM jsonb_path_query(spec -> 'parentRefs', '$[*]') WITH ORDINALITY AS l1 (v, i), mesh_internal.attachment_named('parent', namespace, l1.v, 'spec.parentRefs[' || l1.i - 1 || ']') n
  UNION ALL SELECT n.* FROM jsonb_path_query(spec -> 'rules', '$[*]') WITH ORDINALITY AS l1 (v, i), jsonb_path_query(l1.v -> 'backendRefs', '$[*]') WITH ORDINALITY AS l2 (v, i), mesh_internal.backend_named('backend', namespace, l2.v, 'spec.rules[' || l1.i - 1 || '].backendRefs[' || l2.i - 1 || ']') n
$$;

CREATE OR REPLACE FUNCTION mesh_internal.names_in_backend_tls_policy(namespace text, spec jsonb)
RETURNS TABLE (role text, target text, part text, port int, scope text[], detail jsonb, path text)
LANGUAGE sql IMMUTABLE AS $$
  SELECT n.* FROM jsonb_path_query(spec -> 'targetRefs', '$[*]') WITH ORDINALITY AS l1 (v, i), mesh_internal.attachment_named('attachment', namespace, l1.v, 'spec.targetRefs[' || l1.i - 1 || ']') n
$$;

CREATE OR REPLACE FUNCTION mesh_internal.names_in_listener_set(namespace text, spec jsonb)
RETURNS TABLE (role text, target text, part text, port int, scope text[], detail jsonb, path text)
LANGUAGE sql IMMUTABLE AS $$
  SELECT n.* FROM jsonb_path_query(spec -> 'listeners', '$[*]') WITH ORDINALITY AS l1 (v, i), jsonb_path_query(l1.v -> 'tls' -> 'certificateRefs', '$[*]') WITH ORDINALITY AS l3 (v, i), mesh_internal.secret_named('credential', namespace, l3.v, 'spec.listeners[' || l1.i - 1 || '].tls.certificateRefs[' || l3.i - 1 || ']') n
$$;

CREATE OR REPLACE FUNCTION mesh_internal.names_in_x_backend_traffic_policy(namespace text, spec jsonb)
RETURNS TABLE (role text, target text, part text, port int, scope text[], detail jsonb, path text)
LANGUAGE sql IMMUTABLE AS $$
  SELECT n.* FROM jsonb_path_query(spec -> 'targetRefs', '$[*]') WITH ORDINALITY AS l1 (v, i), mesh_internal.attachment_named('attachment', namespace, l1.v, 'spec.targetRefs[' || l1.i - 1 || ']') n
$$;

CREATE OR REPLACE FUNCTION mesh_internal.names_in_inference_pool(namespace text, spec jsonb)
RETURNS TABLE (role text, target text, part text, port int, scope text[], detail jsonb, path text)
LANGUAGE sql IMMUTABLE AS $$
  SELECT n.* FROM mesh_internal.backend_named('backend', namespace, spec -> 'endpointPickerRef', 'spec.endpointPickerRef') n
$$;

-- names_in is every name that a resource has in its spec.
CREATE OR REPLACE FUNCTION mesh_internal.names_in(kind text, api_group text, namespace text, spec jsonb)
RETURNS TABLE (role text, target text, part text, port int, scope text[], detail jsonb, path text)
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
BEGIN
  CASE
  WHEN kind = 'AuthorizationPolicy' AND api_group = 'security.istio.io' THEN RETURN QUERY SELECT * FROM mesh_internal.names_in_authorization_policy(namespace, spec);
  WHEN kind = 'DestinationRule' AND api_group = 'networking.istio.io' THEN RETURN QUERY SELECT * FROM mesh_internal.names_in_destination_rule(namespace, spec);
  WHEN kind = 'EnvoyFilter' AND api_group = 'networking.istio.io' THEN RETURN QUERY SELECT * FROM mesh_internal.names_in_envoy_filter(namespace, spec);
  WHEN kind = 'Gateway' AND api_group = 'networking.istio.io' THEN RETURN QUERY SELECT * FROM mesh_internal.names_in_istio_gateway(namespace, spec);
  WHEN kind = 'RequestAuthentication' AND api_group = 'security.istio.io' THEN RETURN QUERY SELECT * FROM mesh_internal.names_in_request_authentication(namespace, spec);
  WHEN kind = 'Sidecar' AND api_group = 'networking.istio.io' THEN RETURN QUERY SELECT * FROM mesh_internal.names_in_sidecar(namespace, spec);
  WHEN kind = 'Telemetry' AND api_group = 'telemetry.istio.io' THEN RETURN QUERY SELECT * FROM mesh_internal.names_in_telemetry(namespace, spec);
  WHEN kind = 'TrafficExtension' AND api_group = 'extensions.istio.io' THEN RETURN QUERY SELECT * FROM mesh_internal.names_in_traffic_extension(namespace, spec);
  WHEN kind = 'VirtualService' AND api_group = 'networking.istio.io' THEN RETURN QUERY SELECT * FROM mesh_internal.names_in_virtual_service(namespace, spec);
  WHEN kind = 'WasmPlugin' AND api_group = 'extensions.istio.io' THEN RETURN QUERY SELECT * FROM mesh_internal.names_in_wasm_plugin(namespace, spec);
  WHEN kind = 'Gateway' AND api_group = 'gateway.networking.k8s.io' THEN RETURN QUERY SELECT * FROM mesh_internal.names_in_gateway(namespace, spec);
  WHEN kind = 'HTTPRoute' AND api_group = 'gateway.networking.k8s.io' THEN RETURN QUERY SELECT * FROM mesh_internal.names_in_http_route(namespace, spec);
  WHEN kind = 'GRPCRoute' AND api_group = 'gateway.networking.k8s.io' THEN RETURN QUERY SELECT * FROM mesh_internal.names_in_grpc_route(namespace, spec);
  WHEN kind = 'TCPRoute' AND api_group = 'gateway.networking.k8s.io' THEN RETURN QUERY SELECT * FROM mesh_internal.names_in_tcp_route(namespace, spec);
  WHEN kind = 'TLSRoute' AND api_group = 'gateway.networking.k8s.io' THEN RETURN QUERY SELECT * FROM mesh_internal.names_in_tls_route(namespace, spec);
  WHEN kind = 'UDPRoute' AND api_group = 'gateway.networking.k8s.io' THEN RETURN QUERY SELECT * FROM mesh_internal.names_in_udp_route(namespace, spec);
  WHEN kind = 'BackendTLSPolicy' AND api_group = 'gateway.networking.k8s.io' THEN RETURN QUERY SELECT * FROM mesh_internal.names_in_backend_tls_policy(namespace, spec);
  WHEN kind = 'ListenerSet' AND api_group = 'gateway.networking.k8s.io' THEN RETURN QUERY SELECT * FROM mesh_internal.names_in_listener_set(namespace, spec);
  WHEN kind = 'XBackendTrafficPolicy' AND api_group = 'gateway.networking.x-k8s.io' THEN RETURN QUERY SELECT * FROM mesh_internal.names_in_x_backend_traffic_policy(namespace, spec);
  WHEN kind = 'InferencePool' AND api_group = 'inference.networking.k8s.io' THEN RETURN QUERY SELECT * FROM mesh_internal.names_in_inference_pool(namespace, spec);
  ELSE
  END CASE;
END $$;

-- names_others tells whether one of two HTTP routes names something else than the other.
CREATE OR REPLACE FUNCTION mesh_internal.names_others(was jsonb, became jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
  SELECT was -> 'match' IS DISTINCT FROM became -> 'match' AND (was @? '$.match[*].gateways' OR became @? '$.match[*].gateways')
    OR was -> 'route' IS DISTINCT FROM became -> 'route' AND (jsonb_path_query_array(was, '$.route.size()') <> jsonb_path_query_array(became, '$.route.size()') OR jsonb_path_query_array(was, '$.route[*].destination') <> jsonb_path_query_array(became, '$.route[*].destination'))
    OR was -> 'mirror' IS DISTINCT FROM became -> 'mirror'
    OR was -> 'mirrors' IS DISTINCT FROM became -> 'mirrors' AND (jsonb_path_query_array(was, '$.mirrors.size()') <> jsonb_path_query_array(became, '$.mirrors.size()') OR jsonb_path_query_array(was, '$.mirrors[*].destination') <> jsonb_path_query_array(became, '$.mirrors[*].destination'))
    OR was -> 'delegate' IS DISTINCT FROM became -> 'delegate'
$$;
