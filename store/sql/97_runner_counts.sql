-- How many proxies run a resource.

-- runner_counts returns how many connected proxies resources concern, and how many of those run
-- them and refuse them. A proxy that refuses something made from a resource is one that it concerns.
-- A circle is looked at once for a resource: what its proxies run is in order, so that how many run
-- less than a revision is found without going through them. The circle -1 is everyone of a report.
-- Postgres cannot tell how many rows there will be, and would use nested loops. Of a registry's
-- resource, those run it whose push is that which brought its version to the proxies of their
-- discovery, or a later one.
DROP FUNCTION IF EXISTS mesh_internal.runner_counts(text[], text[], text[]); -- of earlier programs

CREATE OR REPLACE FUNCTION mesh_internal.runner_counts(kinds text[], namespaces text[], names text[], of_registry text DEFAULT NULL)
RETURNS TABLE (kind text, api_group text, namespace text, name text, concerned bigint, running bigint, refusing bigint, refusal text, since timestamptz, versioned boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_nestloop = off SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  WITH chosen AS MATERIALIZED (
    SELECT row_number() OVER () AS id, r.kind, r.api_group, r.namespace, r.name, r.runs_from, r.registry, r.version FROM mesh_internal.chosen_resources($1, $2, $3, $4) r
    WHERE r.hider IS NULL),
  here AS MATERIALIZED (
    SELECT row_number() OVER (ORDER BY p.namespace, p.proxy) AS id, p.namespace, p.proxy, p.report, p.circle, coalesce(p.runs, 0) AS runs, coalesce(p.push, 0) AS push, p.refusals
    FROM mesh_internal.known_proxies p WHERE p.state <> 'away'),
  brought AS MATERIALIZED (
    SELECT c.id, v.report, CASE v.version WHEN c.version THEN v.push END AS push FROM chosen c JOIN mesh_internal.report_versions v USING (name, namespace, kind, api_group)
    WHERE c.registry IS NOT NULL),
  reach AS MATERIALIZED (
    SELECT c.id, a.report, c.registry IS NOT NULL AS is_entry, c.runs_from, CASE WHEN a.everyone THEN '{-1}' ELSE a.circles END AS circles
    FROM chosen c JOIN mesh_internal.report_audiences a USING (name, namespace, kind, api_group)),
  crowds AS MATERIALIZED (
    SELECT h.report, h.circle, count(*) AS proxies, array_agg(h.runs ORDER BY h.runs) AS runs, array_agg(h.push ORDER BY h.push) AS pushes FROM here h GROUP BY 1, 2
    UNION ALL SELECT h.report, -1, count(*), array_agg(h.runs ORDER BY h.runs), array_agg(h.push ORDER BY h.push) FROM here h GROUP BY 1),
  reached AS MATERIALIZED (SELECT r.id, r.report, r.is_entry, r.runs_from, u.circle FROM reach r, unnest(r.circles) u (circle)),
  found AS MATERIALIZED (
    SELECT r.id, w.proxies, b.id IS NOT NULL AS versioned,
      w.proxies - CASE WHEN r.is_entry THEN coalesce(width_bucket(b.push - 1, w.pushes), w.proxies) ELSE width_bucket(r.runs_from - 1, w.runs) END AS running
    FROM reached r JOIN crowds w ON w.report = r.report AND w.circle = r.circle LEFT JOIN brought b ON b.id = r.id AND b.report = r.report),
  counted AS (SELECT f.id, sum(f.proxies) AS concerned, sum(f.running) AS running, bool_or(f.versioned) AS versioned FROM found f GROUP BY 1),
  sources AS MATERIALIZED (
    SELECT h.id AS proxy, h.report, h.circle, h.runs, h.push, f.since, s.*
    FROM here h, jsonb_to_recordset(h.refusals) AS f (since timestamptz, sources jsonb), jsonb_to_recordset(f.sources) AS s (api_group text, kind text, namespace text, name text)
    WHERE h.refusals IS NOT NULL),
  refusers AS (
    SELECT c.id, s.proxy, s.report, s.circle, CASE WHEN c.registry IS NULL THEN s.runs >= c.runs_from ELSE coalesce(s.push >= b.push, false) END AS runs, min(s.since) AS since
    FROM sources s JOIN chosen c USING (name, namespace, kind, api_group) LEFT JOIN brought b ON b.id = c.id AND b.report = s.report GROUP BY 1, 2, 3, 4, 5),
  refused AS (
    SELECT f.id, count(*) AS refusing, count(*) FILTER (WHERE r.id IS NULL) AS uncounted, count(*) FILTER (WHERE r.id IS NOT NULL AND f.runs) AS ran,
      (array_agg(f.proxy ORDER BY f.since, f.proxy))[1] AS first, min(f.since) AS since
    FROM refusers f LEFT JOIN reach r ON r.id = f.id AND r.report = f.report AND (r.circles = '{-1}' OR f.circle = ANY (r.circles)) GROUP BY 1)
  SELECT c.kind, c.api_group, c.namespace, c.name, (coalesce(n.concerned, 0) + coalesce(f.uncounted, 0))::bigint, (coalesce(n.running, 0) - coalesce(f.ran, 0))::bigint,
    coalesce(f.refusing, 0), mesh_internal.refusal_of(h.namespace, h.proxy, c.kind, c.api_group, c.namespace, c.name), f.since, coalesce(n.versioned, false)
  FROM chosen c LEFT JOIN counted n USING (id) LEFT JOIN refused f USING (id) LEFT JOIN here h ON h.id = f.first;
END $$;

-- refusal_of says in words how a proxy refuses what was made from a resource. Of many proxies that
-- refuse the same it is asked for one.
CREATE OR REPLACE FUNCTION mesh_internal.refusal_of(of_namespace text, of_proxy text, kind text, api_group text, namespace text, name text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF of_proxy IS NULL THEN
    RETURN NULL;
  END IF;
  RETURN (
    SELECT format('%s/%s refuses %s: %s', p.namespace, p.proxy, f.resource, f.reason)
    FROM mesh_internal.known_proxies p, jsonb_to_recordset(p.refusals) AS f (resource text, reason text, since timestamptz, sources jsonb)
    WHERE p.namespace = of_namespace AND p.proxy = of_proxy
      AND f.sources @> jsonb_build_array(jsonb_build_object('api_group', refusal_of.api_group, 'kind', refusal_of.kind, 'namespace', refusal_of.namespace, 'name', refusal_of.name))
    ORDER BY f.since, f.resource LIMIT 1);
END $$;
