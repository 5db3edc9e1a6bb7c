-- What became of each resource: whether it was accepted, and which proxies run it.

-- refers_to_others reports whether resources of a kind name others, as 69_references.sql reads them.
CREATE OR REPLACE FUNCTION mesh_internal.refers_to_others(kind text, api_group text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
  SELECT kind || '.' || api_group = ANY ('{AuthorizationPolicy.security.istio.io,DestinationRule.networking.istio.io,EnvoyFilter.networking.istio.io,
    Gateway.networking.istio.io,RequestAuthentication.security.istio.io,Sidecar.networking.istio.io,Telemetry.telemetry.istio.io,TrafficExtension.extensions.istio.io,
    VirtualService.networking.istio.io,WasmPlugin.extensions.istio.io,Gateway.gateway.networking.k8s.io,HTTPRoute.gateway.networking.k8s.io,
    GRPCRoute.gateway.networking.k8s.io,TCPRoute.gateway.networking.k8s.io,TLSRoute.gateway.networking.k8s.io,UDPRoute.gateway.networking.k8s.io,
    BackendTLSPolicy.gateway.networking.k8s.io,ListenerSet.gateway.networking.k8s.io,XBackendTrafficPolicy.gateway.networking.x-k8s.io}'::text[])
$$;

-- in_camel_case writes a code as conditions have it: unknown-host as UnknownHost.
CREATE OR REPLACE FUNCTION mesh_internal.in_camel_case(code text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT replace(initcap(regexp_replace(code, '[^A-Za-z0-9]+', ' ', 'g')), ' ', '') $$;

-- condition writes a condition as Kubernetes does.
CREATE OR REPLACE FUNCTION mesh_internal.condition(type text, status text, reason text, message text, since timestamptz, revision bigint) RETURNS jsonb
LANGUAGE sql STABLE AS $$
  SELECT jsonb_build_object('type', type, 'status', status, 'reason', reason, 'message', message,
    'lastTransitionTime', to_char(since AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), 'observedGeneration', revision)
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

-- programmed writes the condition Programmed. A problem that it shows stands for proxies that do
-- without.
CREATE OR REPLACE FUNCTION mesh_internal.programmed(revision bigint, since timestamptz, reported boolean, concerned bigint, running bigint, refusing bigint, refusal text,
  refused_since timestamptz, last_at timestamptz, problem_reason text, problem_message text) RETURNS jsonb
LANGUAGE sql STABLE AS $$
  SELECT CASE
    WHEN refusing > 0 THEN mesh_internal.condition('Programmed', 'False', 'Refused', concat_ws('; ', format('%s of %s proxies refuse it: %s', refusing, concerned, refusal), problem_message),
      refused_since, revision)
    WHEN problem_reason IS NOT NULL THEN mesh_internal.condition('Programmed', 'False', problem_reason, problem_message, since, revision)
    WHEN revision IS NULL THEN mesh_internal.condition('Programmed', 'Unknown', 'NotCommitted', 'the running transaction changes it', since, revision)
    WHEN NOT reported THEN mesh_internal.condition('Programmed', 'Unknown', 'NotReported', 'no discovery reports what proxies run', since, revision)
    WHEN concerned = 0 THEN mesh_internal.condition('Programmed', 'Unknown', 'NoProxies', 'it concerns no proxy that is connected', since, revision)
    WHEN running < concerned THEN mesh_internal.condition('Programmed', 'False', 'Pending', format('%s of %s proxies run it', running, concerned), since, revision)
    ELSE mesh_internal.condition('Programmed', 'True', 'Programmed', format('%s of %s proxies run it', running, concerned), greatest(since, last_at), revision) END
$$;

-- runner_counts returns how many connected proxies resources concern, and how many of those run
-- them and refuse them. A proxy that refuses something made from a resource is one that it concerns.
-- Proxies of a class that run the same revision are counted once for all resources.
CREATE OR REPLACE FUNCTION mesh_internal.runner_counts(kinds text[], namespaces text[], names text[])
RETURNS TABLE (kind text, api_group text, namespace text, name text, concerned bigint, running bigint, refusing bigint, refusal text, since timestamptz)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  WITH chosen AS MATERIALIZED (SELECT r.kind, r.api_group, r.namespace, r.name, r.runs_from FROM mesh_internal.chosen_resources($1, $2, $3) r),
  here AS MATERIALIZED (SELECT p.namespace, p.proxy, p.report, p.class, coalesce(p.runs, 0) AS runs, p.refusals FROM mesh_internal.known_proxies p WHERE p.state <> 'away'),
  crowds AS MATERIALIZED (SELECT h.report, h.class, h.runs, count(*) AS proxies FROM here h GROUP BY 1, 2, 3),
  totals AS MATERIALIZED (SELECT c.report, c.runs, sum(c.proxies) AS proxies FROM crowds c GROUP BY 1, 2),
  counted AS (
    SELECT c.kind, c.api_group, c.namespace, c.name, sum(g.proxies) AS concerned, sum(g.proxies) FILTER (WHERE g.runs >= c.runs_from) AS running
    FROM chosen c JOIN mesh_internal.report_audiences a USING (name, namespace, kind, api_group), LATERAL (
      SELECT t.runs, t.proxies FROM totals t WHERE a.everyone AND t.report = a.report
      UNION ALL SELECT w.runs, w.proxies FROM crowds w WHERE NOT a.everyone AND w.report = a.report AND w.class = ANY (a.classes)) g
    GROUP BY 1, 2, 3, 4),
  refusers AS (
    SELECT DISTINCT ON (c.kind, c.api_group, c.namespace, c.name, h.namespace, h.proxy) c.kind, c.api_group, c.namespace, c.name, f.since,
      format('%s/%s refuses %s: %s', h.namespace, h.proxy, f.resource, f.reason) AS refusal, h.runs >= c.runs_from AS runs,
      EXISTS (SELECT FROM mesh_internal.report_audiences a WHERE (a.name, a.namespace, a.kind, a.api_group, a.report) = (c.name, c.namespace, c.kind, c.api_group, h.report)
        AND (a.everyone OR h.class = ANY (a.classes))) AS counted
    FROM here h, jsonb_to_recordset(h.refusals) AS f (resource text, reason text, since timestamptz, sources jsonb),
      jsonb_to_recordset(f.sources) AS s (api_group text, kind text, namespace text, name text)
      JOIN chosen c ON (c.name, c.namespace, c.kind, c.api_group) = (s.name, s.namespace, s.kind, s.api_group)
    WHERE h.refusals IS NOT NULL
    ORDER BY 1, 2, 3, 4, h.namespace, h.proxy, f.since),
  refused AS (
    SELECT r.kind, r.api_group, r.namespace, r.name, count(*) AS refusing, count(*) FILTER (WHERE NOT r.counted) AS uncounted, count(*) FILTER (WHERE r.counted AND r.runs) AS ran,
      (array_agg(r.refusal ORDER BY r.since, r.refusal))[1] AS refusal, min(r.since) AS since
    FROM refusers r GROUP BY 1, 2, 3, 4)
  SELECT kind, api_group, namespace, name, (coalesce(n.concerned, 0) + coalesce(f.uncounted, 0))::bigint, (coalesce(n.running, 0) - coalesce(f.ran, 0))::bigint,
    coalesce(f.refusing, 0), f.refusal, f.since
  FROM counted n FULL JOIN refused f USING (kind, api_group, namespace, name);
END $$;

-- chosen_resources returns the resources of a selection that the acting role may be told of. NULL
-- means all. Kinds are written as KIND.GROUP. Whoever runs the revision runs_from, or a later one,
-- runs the resource as it is; a resource that is older than the history runs wherever something
-- does.
CREATE OR REPLACE FUNCTION mesh_internal.chosen_resources(kinds text[], namespaces text[], names text[])
RETURNS TABLE (kind text, api_group text, namespace text, name text, revision bigint, runs_from bigint, since timestamptz)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
    SELECT r.kind, r.api_group, r.namespace, r.name, CASE WHEN t.xid IS NULL THEN 0 ELSE t.revision END, CASE WHEN t.xid IS NULL THEN 1 ELSE coalesce(t.revision, 9223372036854775807) END,
      coalesce(t.time, r.updated_at)
    FROM mesh.resources r LEFT JOIN mesh_internal.transactions t ON t.xid = r.xid AND t.begun_at = r.updated_at
    WHERE ((SELECT mesh_internal.shows_all()) OR r.namespace = ANY ((SELECT mesh_internal.shown_namespaces())::text[]))
      AND ($1 IS NULL OR r.kind || '.' || r.api_group = ANY ($1)) AND ($2 IS NULL OR r.namespace = ANY ($2)) AND ($3 IS NULL OR r.name = ANY ($3));
END $$;

-- statuses_of returns what became of the resources of a selection.
CREATE OR REPLACE FUNCTION mesh_internal.statuses_of(kinds text[] DEFAULT NULL, namespaces text[] DEFAULT NULL, names text[] DEFAULT NULL)
RETURNS TABLE (api_group text, kind text, namespace text, name text, observed_revision bigint, conditions jsonb, concerned bigint, running bigint, refusing bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
DECLARE
  few      boolean := $3 IS NOT NULL AND (SELECT count(*) < 5 FROM mesh_internal.chosen_resources($1, $2, $3));
  reported boolean := EXISTS (SELECT FROM mesh_internal.reports r WHERE r.ended IS NULL AND r.keeper = ANY ((SELECT mesh_internal.live_keepers())::int[]));
BEGIN
  RETURN QUERY
  WITH chosen AS MATERIALIZED (SELECT * FROM mesh_internal.chosen_resources($1, $2, $3)),
  broken AS MATERIALIZED (
    SELECT b.* FROM chosen c, mesh_internal.broken_conditions(c.kind, c.api_group, c.namespace, c.name) b WHERE few
    UNION ALL SELECT b.* FROM mesh_internal.broken_conditions(NULL, NULL, NULL, NULL) b WHERE NOT few),
  wrong AS MATERIALIZED (
    SELECT b.kind, b.api_group, b.namespace, b.name, jsonb_object_agg(b.condition, jsonb_build_array(b.reason, b.message)) AS wrong FROM broken b GROUP BY 1, 2, 3, 4),
  counts AS MATERIALIZED (SELECT * FROM mesh_internal.runner_counts($1, $2, $3)),
  pushed AS MATERIALIZED (
    SELECT d.revision, (SELECT max(s.began + s.took[cardinality(s.took)] * interval '1 microsecond') FROM mesh_internal.rollout_shares s WHERE s.revision = d.revision) AS last_at
    FROM (SELECT DISTINCT c.revision FROM chosen c) d WHERE d.revision > mesh.newest_revision() - 1000)
  SELECT c.api_group, c.kind, c.namespace, c.name, c.revision,
    mesh_internal.conditions_of(c.kind, c.api_group, c.revision, c.since, w.wrong, mesh_internal.programmed(c.revision, c.since, reported, coalesce(n.concerned, 0), coalesce(n.running, 0),
      coalesce(n.refusing, 0), n.refusal, n.since, p.last_at, w.wrong #>> '{Programmed,0}', w.wrong #>> '{Programmed,1}')),
    coalesce(n.concerned, 0), coalesce(n.running, 0), coalesce(n.refusing, 0)
  FROM chosen c LEFT JOIN wrong w USING (kind, api_group, namespace, name) LEFT JOIN counts n USING (kind, api_group, namespace, name) LEFT JOIN pushed p USING (revision);
END $$;

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

CREATE OR REPLACE VIEW mesh.resource_status WITH (security_barrier) AS SELECT * FROM mesh_internal.statuses_of();

COMMENT ON VIEW mesh.resource_status IS 'What became of each resource: whether it was accepted, and which proxies run it, of those that one may read. For one resource mesh.status_of is quicker.';
COMMENT ON COLUMN mesh.resource_status.api_group IS 'The API group of the resource.';
COMMENT ON COLUMN mesh.resource_status.kind IS 'The kind of the resource.';
COMMENT ON COLUMN mesh.resource_status.namespace IS 'The namespace of the resource; empty for kinds without one.';
COMMENT ON COLUMN mesh.resource_status.name IS 'The name of the resource.';
COMMENT ON COLUMN mesh.resource_status.observed_revision IS 'The revision that last changed the resource, which the row is about; 0 if that is older than the history, and NULL while the running transaction changes it.';
COMMENT ON COLUMN mesh.resource_status.conditions IS 'A list of conditions as Kubernetes has them: Accepted, ResolvedRefs if the kind names others, Programmed, and Conflicted and HasWarnings if there is reason. Each problem of the resource in mesh.problems is in one of them.';
COMMENT ON COLUMN mesh.resource_status.concerned IS 'How many connected proxies the resource concerns.';
COMMENT ON COLUMN mesh.resource_status.running IS 'How many of them run it as it is now.';
COMMENT ON COLUMN mesh.resource_status.refusing IS 'How many of them refuse something that was made from it.';

-- named_kind returns the kind that people name in any way: VirtualService, virtualservices, vs, or
-- any of these with the group.
CREATE OR REPLACE FUNCTION mesh_internal.named_kind(word text) RETURNS mesh.kinds
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  named mesh.kinds[] := ARRAY(SELECT k FROM mesh.kinds k, unnest(ARRAY[k.kind, k.plural] || k.short_names) n
    WHERE lower(word) IN (lower(n), lower(n) || '.' || k.api_group) ORDER BY k.api_group LIKE '%istio.io' DESC);
BEGIN
  IF named = '{}' THEN
    PERFORM mesh_internal.refuse('MS002', NULL, NULL, NULL, '', format('unknown kind "%s"', word),
      mesh_internal.hint(word, ARRAY(SELECT k.kind FROM mesh.kinds k GROUP BY k.kind ORDER BY k.kind COLLATE "C"), 'known kinds: '));
  END IF;
  RETURN named[1];
END $$;

-- require_resource returns the selection of one resource, and refuses one that there is not, or that
-- the acting role may not read.
CREATE OR REPLACE FUNCTION mesh_internal.require_resource(kind text, namespace text, name text) RETURNS mesh.kinds
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  known mesh.kinds := mesh_internal.named_kind(require_resource.kind);
BEGIN
  IF NOT EXISTS (SELECT FROM mesh_internal.chosen_resources(ARRAY[known.kind || '.' || known.api_group], ARRAY[require_resource.namespace], ARRAY[require_resource.name])) THEN
    RAISE no_data_found USING MESSAGE = format('there is no %s %s that you can read', known.kind, concat_ws('/', nullif(require_resource.namespace, ''), require_resource.name)),
      HINT = 'mesh.readable_resources has those that there are';
  END IF;
  RETURN known;
END $$;

CREATE OR REPLACE FUNCTION mesh.status_of(kind text, namespace text, name text) RETURNS SETOF mesh.resource_status
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  known mesh.kinds := mesh_internal.require_resource(status_of.kind, status_of.namespace, status_of.name);
BEGIN
  RETURN QUERY SELECT * FROM mesh_internal.statuses_of(ARRAY[known.kind || '.' || known.api_group], ARRAY[status_of.namespace], ARRAY[status_of.name]);
END $$;

COMMENT ON FUNCTION mesh.status_of IS 'Returns the row of one resource in mesh.resource_status. The kind may be written in any way that the command line takes, such as vs.';
