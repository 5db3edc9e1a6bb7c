-- How many proxies run a resource.

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
