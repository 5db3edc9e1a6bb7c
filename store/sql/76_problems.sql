-- All that is wrong, or may be, with the mesh as it stands.

-- find_problems finds what the acting role may read. Estimates for a mesh of many resources would have the query compiled, which
-- takes longer than to run it, and statistics from before a bulk load would have it run in nested loops.
CREATE OR REPLACE FUNCTION mesh.find_problems() RETURNS SETOF mesh.link_problem
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off SET enable_nestloop = off SET plan_cache_mode = force_custom_plan AS $$
BEGIN
  RETURN QUERY EXECUTE $query$
    SELECT p.severity, p.code, p.kind, p.api_group, p.namespace, p.name, p.path, p.message, p.hint
    FROM (
      SELECT * FROM mesh.link_problems
      UNION ALL SELECT * FROM mesh.selects_nothing
      UNION ALL SELECT * FROM mesh.empty_subsets
      UNION ALL SELECT * FROM mesh.ending_certificates
