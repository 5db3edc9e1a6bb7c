-- What became of each resource: whether it was accepted, and which proxies run it.

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
      coalesce(n.refusing, 0), n.refusal, n.since, p.last_at)),
    coalesce(n.concerned, 0), coalesce(n.running, 0), coalesce(n.refusing, 0)
  FROM chosen c LEFT JOIN wrong w USING (kind, api_group, namespace, name) LEFT JOIN counts n USING (kind, api_group, namespace, name) LEFT JOIN pushed p USING (revision);
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

CREATE OR REPLACE FUNCTION mesh.status_of(kind text, namespace text, name text) RETURNS SETOF mesh.resource_status
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 1 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  known mesh.kinds := mesh_internal.require_resource(status_of.kind, status_of.namespace, status_of.name);
BEGIN
  RETURN QUERY SELECT * FROM mesh_internal.statuses_of(ARRAY[known.kind || '.' || known.api_group], ARRAY[status_of.namespace], ARRAY[status_of.name]);
END $$;

COMMENT ON FUNCTION mesh.status_of IS 'Returns the row of one resource in mesh.resource_status. The kind may be written in any way that the command line takes, such as vs.';
