-- Which resources somebody asks for.

-- Earlier programs had it return less.
DROP FUNCTION IF EXISTS mesh_internal.chosen_resources(text[], text[], text[]);

-- chosen_resources returns the resources of a selection that the acting role may be told of. NULL
-- means all. Kinds are written as KIND.GROUP. Whoever runs the revision runs_from, or a later one,
-- runs the resource as it is; a resource that is older than the history runs wherever something
-- does. One of a registry has a version in place of revisions: 97_runner_counts.sql finds who runs
-- that. Of a single registry all configuration is chosen, also what another origin hides.
CREATE OR REPLACE FUNCTION mesh_internal.chosen_resources(kinds text[], namespaces text[], names text[], of_registry text DEFAULT NULL)
RETURNS TABLE (kind text, api_group text, namespace text, name text, revision bigint, runs_from bigint, since timestamptz, registry text, version text, hider text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
    SELECT r.kind, r.api_group, r.namespace, r.name, CASE WHEN t.xid IS NULL THEN 0 ELSE t.revision END, CASE WHEN t.xid IS NULL THEN 1 ELSE coalesce(t.revision, 9223372036854775807) END,
      coalesce(t.time, r.updated_at), NULL::text, NULL::text, NULL::text
    FROM mesh.resources r LEFT JOIN mesh_internal.transactions t ON t.xid = r.xid AND t.begun_at = r.updated_at
    WHERE $4 IS NULL AND ((SELECT mesh_internal.shows_all()) OR r.namespace = ANY ((SELECT mesh_internal.shown_namespaces())::text[]))
      AND ($1 IS NULL OR r.kind || '.' || r.api_group = ANY ($1)) AND ($2 IS NULL OR r.namespace = ANY ($2)) AND ($3 IS NULL OR r.name = ANY ($3));
  IF EXISTS (SELECT FROM mesh_internal.registries) THEN
    RETURN QUERY SELECT * FROM mesh_internal.chosen_entries($1, $2, $3, $4);
  END IF;
END $$;

-- chosen_entries returns those that registries have.
CREATE OR REPLACE FUNCTION mesh_internal.chosen_entries(kinds text[], namespaces text[], names text[], of_registry text)
RETURNS TABLE (kind text, api_group text, namespace text, name text, revision bigint, runs_from bigint, since timestamptz, registry text, version text, hider text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
    SELECT c.kind, c.api_group, c.namespace, c.name, NULL::bigint, NULL::bigint, c.changed, c.registry, c.version, c.hider
    FROM (
      SELECT e.kind, e.api_group, e.namespace, e.name, e.changed, e.registry, e.version, mesh_internal.hider_of(e) AS hider
      FROM mesh_internal.known_registries k JOIN mesh_internal.registry_entries e ON e.registry = k.name
      WHERE e.kind <> 'Secret' AND ((SELECT mesh_internal.shows_all()) OR e.namespace = ANY ((SELECT mesh_internal.shown_namespaces())::text[]))
        AND ($1 IS NULL OR e.kind || '.' || e.api_group = ANY ($1)) AND ($2 IS NULL OR e.namespace = ANY ($2)) AND ($3 IS NULL OR e.name = ANY ($3))
        AND ($4 IS NULL OR k.name = $4 AND NOT (e.kind = 'ServiceEntry' AND e.name LIKE $4 || '.%')) OFFSET 0) c
    WHERE $4 IS NOT NULL OR c.hider IS NULL;
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
