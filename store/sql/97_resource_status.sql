-- What became of each resource: whether it was accepted, and which proxies run it.

-- Earlier programs had it return less. mesh.resource_status is read from it, and mesh.status_of
-- returns rows of that.
DO $$
DECLARE
  had regprocedure := (SELECT p.oid FROM pg_proc p WHERE p.pronamespace = 'mesh_internal'::regnamespace AND p.proname = 'statuses_of' AND NOT 'status' = ANY (p.proargnames));
BEGIN
  IF had IS NOT NULL THEN
    DROP FUNCTION IF EXISTS mesh.status_of(text, text, text);
    DROP VIEW IF EXISTS mesh.resource_status;
    EXECUTE format('DROP FUNCTION %s', had);
  END IF;
END $$;

-- statuses_of returns what became of the resources of a selection, as mesh_internal.chosen_resources
-- chooses.
CREATE OR REPLACE FUNCTION mesh_internal.statuses_of(kinds text[] DEFAULT NULL, namespaces text[] DEFAULT NULL, names text[] DEFAULT NULL, of_registry text DEFAULT NULL)
RETURNS TABLE (api_group text, kind text, namespace text, name text, observed_revision bigint, conditions jsonb, concerned bigint, running bigint, refusing bigint, origin text, version text, status jsonb)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
DECLARE
  few      boolean := $3 IS NOT NULL AND (SELECT count(*) < 5 FROM mesh_internal.chosen_resources($1, $2, $3));
  reported boolean := EXISTS (SELECT FROM mesh_internal.reports r WHERE r.ended IS NULL AND r.keeper = ANY ((SELECT mesh_internal.live_keepers())::int[]));
BEGIN
  RETURN QUERY
  WITH chosen AS MATERIALIZED (SELECT * FROM mesh_internal.chosen_resources($1, $2, $3, $4)),
  broken AS MATERIALIZED (
    SELECT b.* FROM chosen c, mesh_internal.broken_conditions(c.kind, c.api_group, c.namespace, c.name) b WHERE few
    UNION ALL SELECT b.* FROM mesh_internal.broken_conditions(NULL, NULL, NULL, NULL) b WHERE NOT few),
  wrong AS MATERIALIZED (
    SELECT b.kind, b.api_group, b.namespace, b.name, jsonb_object_agg(b.condition, jsonb_build_array(b.reason, b.message)) AS wrong FROM broken b GROUP BY 1, 2, 3, 4),
  counts AS MATERIALIZED (SELECT * FROM mesh_internal.runner_counts($1, $2, $3, $4)),
  decided AS MATERIALIZED (SELECT * FROM mesh_internal.decided_statuses($1, $2, $3, $4)),
  pushed AS MATERIALIZED (
    SELECT d.revision, (SELECT max(s.began + s.took[cardinality(s.took)] * interval '1 microsecond') FROM mesh_internal.rollout_shares s WHERE s.revision = d.revision) AS last_at
    FROM (SELECT DISTINCT c.revision FROM chosen c) d WHERE d.revision > (SELECT mesh.newest_revision()) - 1000)
  SELECT c.api_group, c.kind, c.namespace, c.name, c.revision,
    CASE WHEN c.hider IS NOT NULL THEN mesh_internal.hidden_conditions(c.hider, c.since) ELSE mesh_internal.conditions_of(c.kind, c.api_group, c.revision, c.since, w.wrong, o.programmed) END,
    coalesce(n.concerned, 0), coalesce(n.running, 0), coalesce(n.refusing, 0), c.registry, c.version,
    mesh_internal.api_status(c.kind, c.namespace, c.name, d.status, d.decided, c.revision, o.programmed)
  FROM chosen c LEFT JOIN wrong w USING (kind, api_group, namespace, name) LEFT JOIN counts n USING (kind, api_group, namespace, name) LEFT JOIN pushed p USING (revision)
    LEFT JOIN decided d USING (kind, api_group, namespace, name),
    LATERAL (SELECT CASE WHEN c.registry IS NULL
      THEN mesh_internal.programmed(c.revision, c.since, reported, coalesce(n.concerned, 0), coalesce(n.running, 0), coalesce(n.refusing, 0), n.refusal, n.since, p.last_at)
      ELSE mesh_internal.programmed_entry(c.since, reported, n.versioned, coalesce(n.concerned, 0), coalesce(n.running, 0), coalesce(n.refusing, 0), n.refusal, n.since) END AS programmed) o;
END $$;

CREATE OR REPLACE VIEW mesh.resource_status WITH (security_barrier) AS
  SELECT api_group, kind, namespace, name, observed_revision, conditions, concerned, running, refusing, origin, status FROM mesh_internal.statuses_of();

COMMENT ON VIEW mesh.resource_status IS 'What became of each resource, of the database and of registries: whether it was accepted, and which proxies run it, of those that one may read. For one resource mesh.status_of is quicker.';
COMMENT ON COLUMN mesh.resource_status.api_group IS 'The API group of the resource.';
COMMENT ON COLUMN mesh.resource_status.kind IS 'The kind of the resource.';
COMMENT ON COLUMN mesh.resource_status.namespace IS 'The namespace of the resource; empty for kinds without one.';
COMMENT ON COLUMN mesh.resource_status.name IS 'The name of the resource.';
COMMENT ON COLUMN mesh.resource_status.observed_revision IS 'The revision that last changed the resource, which the row is about; 0 if that is older than the history, and NULL while the running transaction changes it. NULL of a registry''s, whose changes are no revisions.';
COMMENT ON COLUMN mesh.resource_status.conditions IS 'A list of conditions as Kubernetes has them: Accepted, ResolvedRefs if the kind names others, Programmed, and Conflicted and HasWarnings if there is reason. Each problem of the resource in mesh.problems is in one of them.';
COMMENT ON COLUMN mesh.resource_status.concerned IS 'How many connected proxies the resource concerns.';
COMMENT ON COLUMN mesh.resource_status.running IS 'How many of them run it as it is now.';
COMMENT ON COLUMN mesh.resource_status.refusing IS 'How many of them refuse something that was made from it.';
COMMENT ON COLUMN mesh.resource_status.origin IS 'The registry that has it, as in mesh.registries; NULL if it is the mesh''s own. One that another origin hides is not here.';
COMMENT ON COLUMN mesh.resource_status.status IS 'The status of a resource of the Gateway API in that API''s own shape, as kubectl shows it. NULL of other kinds, while no discovery reports that has the resource as it is now, and of what another controller serves.';

CREATE OR REPLACE FUNCTION mesh.status_of(kind text, namespace text, name text) RETURNS SETOF mesh.resource_status
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 1 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  known mesh.kinds := mesh_internal.require_resource(status_of.kind, status_of.namespace, status_of.name);
BEGIN
  RETURN QUERY SELECT s.api_group, s.kind, s.namespace, s.name, s.observed_revision, s.conditions, s.concerned, s.running, s.refusing, s.origin, s.status
    FROM mesh_internal.statuses_of(ARRAY[known.kind || '.' || known.api_group], ARRAY[status_of.namespace], ARRAY[status_of.name]) s;
END $$;

COMMENT ON FUNCTION mesh.status_of IS 'Returns the row of one resource in mesh.resource_status. The kind may be written in any way that the command line takes, such as vs.';

-- Earlier programs had it return less.
DO $$
BEGIN
  IF EXISTS (SELECT FROM pg_proc p WHERE p.pronamespace = 'mesh_internal'::regnamespace AND p.proname = 'registry_statuses' AND NOT 'status' = ANY (p.proargnames)) THEN
    DROP FUNCTION mesh_internal.registry_statuses(text);
  END IF;
END $$;

-- registry_statuses returns what became of the configuration of a registry, for the server that writes
-- it there.
CREATE OR REPLACE FUNCTION mesh_internal.registry_statuses(registry text)
RETURNS TABLE (kind text, api_group text, namespace text, name text, version text, conditions jsonb, status jsonb)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
  PERFORM mesh_internal.require_server('write statuses to a registry');
  RETURN QUERY SELECT s.kind, s.api_group, s.namespace, s.name, s.version, s.conditions, s.status FROM mesh_internal.statuses_of(of_registry => registry_statuses.registry) s;
END $$;

COMMENT ON FUNCTION mesh_internal.registry_statuses IS 'Internal. Servers write statuses to registries by it.';

-- status_moves returns a number that is another one when statuses may have changed: it counts
-- revisions and messages of reports, and reports that have begun or ended.
CREATE OR REPLACE FUNCTION mesh_internal.status_moves() RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM mesh_internal.require_server('write statuses to a registry');
  RETURN mesh.newest_revision() + (SELECT coalesce(sum(r.number + r.id + CASE WHEN r.ended IS NULL THEN 0 ELSE 1 END), 0) FROM mesh_internal.reports r);
END $$;

COMMENT ON FUNCTION mesh_internal.status_moves IS 'Internal. Servers write statuses to registries by it.';
