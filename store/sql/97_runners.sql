-- Who runs a resource.

-- runners_of returns the connected proxies that a resource concerns, and whether each runs it as it
-- is now: a revision that has its last change, or a push that has this version of a registry's, and nothing refused that was made from it.
CREATE OR REPLACE FUNCTION mesh_internal.runners_of(of_kind text, of_group text, of_namespace text, of_name text)
RETURNS TABLE (namespace text, proxy text, runs boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
    SELECT p.namespace, p.proxy, CASE WHEN c.registry IS NULL THEN coalesce(p.runs, 0) >= c.runs_from ELSE coalesce(v.version = c.version AND p.push >= v.push, false) END AND NOT f.refuses
    FROM mesh_internal.chosen_resources(ARRAY[$1 || '.' || $2], ARRAY[$3], ARRAY[$4]) c, mesh_internal.known_proxies p
      LEFT JOIN mesh_internal.report_audiences a ON (a.name, a.namespace, a.kind, a.api_group, a.report) = ($4, $3, $1, $2, p.report) AND (a.everyone OR p.circle = ANY (a.circles))
      LEFT JOIN mesh_internal.report_versions v ON (v.name, v.namespace, v.kind, v.api_group, v.report) = ($4, $3, $1, $2, p.report),
      LATERAL (SELECT coalesce(p.refusals @> jsonb_build_array(jsonb_build_object('sources', jsonb_build_array(
        jsonb_build_object('api_group', $2, 'kind', $1, 'namespace', $3, 'name', $4)))), false) AS refuses) f
    WHERE p.state <> 'away' AND (a.report IS NOT NULL OR f.refuses);
END $$;

CREATE OR REPLACE FUNCTION mesh.runs(kind text, namespace text, name text) RETURNS SETOF mesh.proxies
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  known mesh.kinds := mesh_internal.require_resource(runs.kind, runs.namespace, runs.name);
BEGIN
  RETURN QUERY SELECT p.* FROM mesh_internal.runners_of(known.kind, known.api_group, runs.namespace, runs.name) r JOIN mesh.proxies p ON (p.namespace, p.proxy) = (r.namespace, r.proxy)
    WHERE r.runs;
END $$;

COMMENT ON FUNCTION mesh.runs IS 'Lists the connected proxies which a resource concerns and which run it as it is now, as in mesh.proxies. The kind may be written in any way that the command line takes, such as vs.';
