-- Everything that is or may be wrong with the current mesh.

-- find_problems returns the problems that the acting role may read. What thousands name and nobody has
-- is searched for once. A session plans the query once, since to plan it takes longer than to run it.
-- By statistics from before a bulk load Postgres would use nested loops. 97_every_problem.sql has all
-- problems.
CREATE OR REPLACE FUNCTION mesh_internal.find_problems() RETURNS SETOF mesh_internal.link_problem
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_nestloop = off AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
    WITH found AS MATERIALIZED (
      SELECT p.* FROM (TABLE mesh_internal.every_problem UNION ALL SELECT u.*, NULL FROM mesh_internal.find_unreachable(NULL, NULL) u) p WHERE (SELECT mesh_internal.shows_all()) OR p.namespace = ANY ((SELECT mesh_internal.shown_namespaces())::text[])),
    searched AS MATERIALIZED (SELECT s.sought, mesh_internal.hint_for(s.sought) AS hint FROM (SELECT DISTINCT f.sought FROM found f WHERE f.sought IS NOT NULL) s)
    SELECT f.severity, f.code, f.kind, f.api_group, f.namespace, f.name, f.path, f.message, coalesce(f.hint, s.hint) FROM found f LEFT JOIN searched s USING (sought);
END $$;

-- find_problems_of returns those of one resource, which is quicker than to find all.
CREATE OR REPLACE FUNCTION mesh_internal.find_problems_of(kind text, api_group text, namespace text, name text) RETURNS SETOF mesh_internal.link_problem
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY SELECT p.severity, p.code, p.kind, p.api_group, p.namespace, p.name, p.path, p.message, coalesce(p.hint, mesh_internal.hint_for(p.sought))
    FROM (TABLE mesh_internal.every_problem UNION ALL SELECT u.*, NULL FROM mesh_internal.find_unreachable(find_problems_of.namespace, coalesce(find_problems_of.name, '')) u WHERE find_problems_of.kind = 'VirtualService') p
    WHERE p.kind = find_problems_of.kind AND p.api_group = find_problems_of.api_group AND p.namespace = find_problems_of.namespace AND p.name = find_problems_of.name
      AND ((SELECT mesh_internal.shows_all()) OR p.namespace = ANY ((SELECT mesh_internal.shown_namespaces())::text[]));
END $$;

-- origin_of returns the registry that has a resource; NULL if it is the mesh's own.
CREATE OR REPLACE FUNCTION mesh_internal.origin_of(kind text, api_group text, namespace text, name text) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
BEGIN
  IF $1 = 'Registry' AND $2 = 'registry.pgmesh.io' THEN
    RETURN $4;
  END IF;
  RETURN (SELECT e.registry FROM mesh_internal.registry_entries e
    WHERE e.name = $4 AND e.namespace = $3 AND e.kind = $1 AND e.api_group = $2 AND (mesh_internal.shows_all() OR $3 = ANY (mesh_internal.shown_namespaces()))
      AND NOT mesh_internal.is_outranked(e.kind, e.api_group, e.namespace, e.name, e.registry) LIMIT 1);
END $$;

CREATE OR REPLACE VIEW mesh.problems WITH (security_barrier) AS
  SELECT p.severity, p.code, p.api_group, p.kind, p.namespace, p.name, p.path, p.message, p.hint,
    mesh_internal.origin_of(p.kind, p.api_group, p.namespace, p.name) AS origin
  FROM mesh_internal.find_problems() p;

COMMENT ON VIEW mesh.problems IS 'What is or may be wrong with the resources as they stand: routes that lead nowhere, hosts and ports with two owners, selectors that select nothing, services that no healthy endpoint serves, certificates and authorities that expire, resources that break the current rules, machines that cannot be registered, and what discoveries find wrong where proxies are connected.';
COMMENT ON COLUMN mesh.problems.severity IS 'error: it will not work as written; warning: it probably does not do what was meant; info: it may be as intended.';
COMMENT ON COLUMN mesh.problems.code IS 'A short name for this sort of problem, which never changes.';
COMMENT ON COLUMN mesh.problems.api_group IS 'The API group of the resource.';
COMMENT ON COLUMN mesh.problems.kind IS 'The kind of the resource.';
COMMENT ON COLUMN mesh.problems.namespace IS 'The namespace of the resource; empty for kinds without one.';
COMMENT ON COLUMN mesh.problems.name IS 'The name of the resource.';
COMMENT ON COLUMN mesh.problems.path IS 'The field with the problem; empty for the whole resource.';
COMMENT ON COLUMN mesh.problems.message IS 'What is wrong, in words.';
COMMENT ON COLUMN mesh.problems.hint IS 'What to do about it.';
COMMENT ON COLUMN mesh.problems.origin IS 'The registry that has the resource, as in mesh.registries, where it has to be corrected; NULL if it is the mesh''s own.';
