-- How many proxies run a resource.

-- runner_counts returns how many connected proxies resources concern, and how many of those run
-- them and refuse them. A proxy that refuses something made from a resource is one that it concerns.
-- A class is looked at once for a resource: what its proxies run is in order, so that how many run
-- less than a revision is found without going through them. The class -1 is everyone of a report.
CREATE OR REPLACE FUNCTION mesh_internal.runner_counts(kinds text[], namespaces text[], names text[])
RETURNS TABLE (kind text, api_group text, namespace text, name text, concerned bigint, running bigint, refusing bigint, refusal text, since timestamptz)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  WITH chosen AS MATERIALIZED (SELECT r.kind, r.api_group, r.namespace, r.name, r.runs_from FROM mesh_internal.chosen_resources($1, $2, $3) r),
  here AS MATERIALIZED (SELECT p.namespace, p.proxy, p.report, p.class, coalesce(p.runs, 0) AS runs, p.refusals FROM mesh_internal.known_proxies p WHERE p.state <> 'away'),
  crowds AS MATERIALIZED (
    SELECT h.report, h.class, count(*) AS proxies, array_agg(h.runs ORDER BY h.runs) AS runs FROM here h GROUP BY 1, 2
    UNION ALL SELECT h.report, -1, count(*), array_agg(h.runs ORDER BY h.runs) FROM here h GROUP BY 1),
  counted AS (
    SELECT c.kind, c.api_group, c.namespace, c.name, sum(w.proxies) AS concerned, sum(w.proxies - width_bucket(c.runs_from - 1, w.runs)) AS running
    FROM chosen c JOIN mesh_internal.report_audiences a USING (name, namespace, kind, api_group)
      CROSS JOIN LATERAL unnest(CASE WHEN a.everyone THEN '{-1}' ELSE a.classes END) u (class) JOIN crowds w ON w.report = a.report AND w.class = u.class
    GROUP BY 1, 2, 3, 4),
  refusers AS (
    SELECT DISTINCT ON (c.kind, c.api_group, c.namespace, c.name, h.namespace, h.proxy) c.kind, c.api_group, c.namespace, c.name, h.namespace AS of_namespace, h.proxy, f.since,
      h.runs >= c.runs_from AS runs, EXISTS (
        SELECT FROM mesh_internal.report_audiences a WHERE (a.name, a.namespace, a.kind, a.api_group, a.report) = (c.name, c.namespace, c.kind, c.api_group, h.report)
        AND (a.everyone OR h.class = ANY (a.classes))) AS counted
    FROM here h, jsonb_to_recordset(h.refusals) AS f (since timestamptz, sources jsonb), jsonb_to_recordset(f.sources) AS s (api_group text, kind text, namespace text, name text)
      JOIN chosen c ON (c.name, c.namespace, c.kind, c.api_group) = (s.name, s.namespace, s.kind, s.api_group)
    WHERE h.refusals IS NOT NULL
    ORDER BY 1, 2, 3, 4, h.namespace, h.proxy, f.since),
  refused AS (
    SELECT r.kind, r.api_group, r.namespace, r.name, count(*) AS refusing, count(*) FILTER (WHERE NOT r.counted) AS uncounted, count(*) FILTER (WHERE r.counted AND r.runs) AS ran,
      (array_agg(ARRAY[r.of_namespace, r.proxy] ORDER BY r.since, r.of_namespace, r.proxy))[1:1] AS first, min(r.since) AS since
    FROM refusers r GROUP BY 1, 2, 3, 4)
  SELECT kind, api_group, namespace, name, (coalesce(n.concerned, 0) + coalesce(f.uncounted, 0))::bigint, (coalesce(n.running, 0) - coalesce(f.ran, 0))::bigint,
    coalesce(f.refusing, 0), CASE WHEN f.refusing > 0 THEN mesh_internal.refusal_of(f.first[1][1], f.first[1][2], kind, api_group, namespace, name) END, f.since
  FROM counted n FULL JOIN refused f USING (kind, api_group, namespace, name);
END $$;

-- refusal_of says in words how a proxy refuses what was made from a resource. Of many proxies that
-- refuse the same it is asked for one.
CREATE OR REPLACE FUNCTION mesh_internal.refusal_of(of_namespace text, of_proxy text, kind text, api_group text, namespace text, name text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN (
    SELECT format('%s/%s refuses %s: %s', p.namespace, p.proxy, f.resource, f.reason)
    FROM mesh_internal.known_proxies p, jsonb_to_recordset(p.refusals) AS f (resource text, reason text, since timestamptz, sources jsonb)
    WHERE p.namespace = of_namespace AND p.proxy = of_proxy
      AND f.sources @> jsonb_build_array(jsonb_build_object('api_group', refusal_of.api_group, 'kind', refusal_of.kind, 'namespace', refusal_of.namespace, 'name', refusal_of.name))
    ORDER BY f.since, f.resource LIMIT 1);
END $$;
