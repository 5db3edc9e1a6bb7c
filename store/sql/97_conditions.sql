-- What is right and wrong with a resource, as conditions of Kubernetes' sort.

-- refers_to_others reports whether resources of a kind name others, as 69_references.sql reads them.
CREATE OR REPLACE FUNCTION mesh_internal.refers_to_others(kind text, api_group text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
  SELECT kind || '.' || api_group = ANY ('{AuthorizationPolicy.security.istio.io,DestinationRule.networking.istio.io,EnvoyFilter.networking.istio.io,
    Gateway.networking.istio.io,RequestAuthentication.security.istio.io,Sidecar.networking.istio.io,Telemetry.telemetry.istio.io,TrafficExtension.extensions.istio.io,
    VirtualService.networking.istio.io,WasmPlugin.extensions.istio.io,Gateway.gateway.networking.k8s.io,HTTPRoute.gateway.networking.k8s.io,
    GRPCRoute.gateway.networking.k8s.io,TCPRoute.gateway.networking.k8s.io,TLSRoute.gateway.networking.k8s.io,UDPRoute.gateway.networking.k8s.io,
    BackendTLSPolicy.gateway.networking.k8s.io,ListenerSet.gateway.networking.k8s.io,XBackendTrafficPolicy.gateway.networking.x-k8s.io,
    InferencePool.inference.networking.k8s.io}'::text[])
$$;

-- in_camel_case writes a code as conditions have it: unknown-host as UnknownHost.
CREATE OR REPLACE FUNCTION mesh_internal.in_camel_case(code text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT replace(initcap(regexp_replace(code, '[^A-Za-z0-9]+', ' ', 'g')), ' ', '') $$;

-- condition_since says since when a condition holds, and of which revision, as Kubernetes does.
CREATE OR REPLACE FUNCTION mesh_internal.condition_since(since timestamptz, revision bigint) RETURNS jsonb
LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object('lastTransitionTime', to_char(since AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), 'observedGeneration', revision)
$$;

-- condition writes a condition as Kubernetes does.
CREATE OR REPLACE FUNCTION mesh_internal.condition(type text, status text, reason text, message text, since timestamptz, revision bigint) RETURNS jsonb
LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object('type', type, 'status', status, 'reason', reason, 'message', message) || mesh_internal.condition_since(since, revision)
$$;

-- broken_conditions returns, for each resource that has problems and each condition that shows some
-- of them, the reason and all messages. Each problem is in one condition: the one that is for its
-- code, or Accepted for an error and HasWarnings for everything less. It looks at one resource, or
-- at all.
CREATE OR REPLACE FUNCTION mesh_internal.broken_conditions(of_kind text, of_group text, of_namespace text, of_name text)
RETURNS TABLE (kind text, api_group text, namespace text, name text, condition text, reason text, message text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
    WITH problems AS MATERIALIZED (
      SELECT * FROM mesh_internal.find_problems_of($1, $2, $3, $4) WHERE $4 IS NOT NULL
      UNION ALL SELECT * FROM mesh_internal.find_problems() WHERE $4 IS NULL),
    shown AS (
      SELECT p.*, c.reason, CASE WHEN p.severity = 'info' THEN 'HasWarnings' ELSE coalesce(c.condition, CASE p.severity WHEN 'error' THEN 'Accepted' ELSE 'HasWarnings' END) END AS condition,
        array_position('{error,warning,info}', p.severity) AS rank
      FROM problems p LEFT JOIN mesh_internal.problem_codes c USING (code))
    SELECT s.kind, s.api_group, s.namespace, s.name, s.condition,
      (array_agg(coalesce(s.reason, mesh_internal.in_camel_case(s.code)) ORDER BY s.rank, s.path, s.code))[1],
      string_agg(concat_ws(': ', nullif(s.path, ''), s.message), '; ' ORDER BY s.rank, s.path, s.code, s.message)
    FROM shown s GROUP BY 1, 2, 3, 4, 5;
END $$;

-- programmed writes the condition Programmed.
CREATE OR REPLACE FUNCTION mesh_internal.programmed(revision bigint, since timestamptz, reported boolean, concerned bigint, running bigint, refusing bigint, refusal text,
  refused_since timestamptz, last_at timestamptz) RETURNS jsonb
LANGUAGE sql STABLE AS $$
  SELECT CASE
    WHEN refusing > 0 THEN mesh_internal.condition('Programmed', 'False', 'Refused', format('%s of %s proxies refuse it: %s', refusing, concerned, refusal), refused_since, revision)
    WHEN revision IS NULL THEN mesh_internal.condition('Programmed', 'Unknown', 'NotCommitted', 'the running transaction changes it', since, revision)
    WHEN NOT reported THEN mesh_internal.condition('Programmed', 'Unknown', 'NotReported', 'no discovery reports what proxies run', since, revision)
    WHEN concerned = 0 THEN mesh_internal.condition('Programmed', 'Unknown', 'NoProxies', 'it concerns no proxy that is connected', since, revision)
    WHEN running < concerned THEN mesh_internal.condition('Programmed', 'False', 'Pending', format('%s of %s proxies run it', running, concerned), since, revision)
    ELSE mesh_internal.condition('Programmed', 'True', 'Programmed', format('%s of %s proxies run it', running, concerned), greatest(since, last_at), revision) END
$$;

-- programmed_entry writes the condition Programmed of a registry's resource. It is versioned if a
-- discovery that has the resource says in which version.
CREATE OR REPLACE FUNCTION mesh_internal.programmed_entry(since timestamptz, reported boolean, versioned boolean, concerned bigint, running bigint, refusing bigint, refusal text, refused_since timestamptz)
RETURNS jsonb
LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN reported AND concerned > 0 AND refusing = 0 AND NOT versioned
    THEN mesh_internal.condition('Programmed', 'Unknown', 'NotReported', 'no discovery reports which version of it proxies run', since, NULL)
    ELSE mesh_internal.programmed(0, since, reported, concerned, running, refusing, refusal, refused_since, NULL) || '{"observedGeneration": null}' END
$$;

-- hidden_conditions lists the conditions of a registry's resource that another origin hides.
CREATE OR REPLACE FUNCTION mesh_internal.hidden_conditions(hider text, since timestamptz) RETURNS jsonb
LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_array(mesh_internal.condition('Accepted', 'False', 'Hidden',
      CASE hider WHEN '' THEN 'the mesh has one of this kind and name itself, which counts' ELSE format('the registry %s has one of this kind and name, which counts', hider) END, since, NULL),
    mesh_internal.condition('Programmed', 'False', 'Hidden', 'no proxy runs it', since, NULL))
$$;

-- conditions_of lists the conditions of a resource. Those that are only there if something is wrong
-- come last.
CREATE OR REPLACE FUNCTION mesh_internal.conditions_of(kind text, api_group text, revision bigint, since timestamptz, wrong jsonb, programmed jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  list jsonb := '[]';
  type text;
BEGIN
  FOREACH type IN ARRAY '{Accepted,ResolvedRefs}'::text[] LOOP
    IF wrong ? type THEN
      list := list || mesh_internal.condition(type, 'False', wrong -> type ->> 0, wrong -> type ->> 1, since, revision);
    ELSIF type = 'Accepted' OR mesh_internal.refers_to_others(kind, api_group) THEN
      list := list || mesh_internal.condition(type, 'True', type, '', since, revision);
    END IF;
  END LOOP;
  list := list || programmed;
  FOREACH type IN ARRAY '{Conflicted,HasWarnings}'::text[] LOOP
    IF wrong ? type THEN
      list := list || mesh_internal.condition(type, 'True', wrong -> type ->> 0, wrong -> type ->> 1, since, revision);
    END IF;
  END LOOP;
  RETURN list;
END $$;
