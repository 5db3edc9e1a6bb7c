-- What resources say of each other wherever they are kept: the mesh's own, and those of registries
-- (94_registries.sql), of which one is hidden while another of its name counts first.

-- outranker_of says what has a resource of the kind and name of an entry of a registry, and counts
-- before that: '' for the mesh itself, or an earlier registry; NULL if nothing has. It is a function,
-- and no join, for the planner never has statistics of a registry that has just begun.
CREATE OR REPLACE FUNCTION mesh_internal.outranker_of(kind text, api_group text, namespace text, name text, registry text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_nestloop = on AS $$
BEGIN
  IF EXISTS (SELECT FROM mesh.resources r WHERE r.kind = $1 AND r.api_group = $2 AND r.namespace = $3 AND r.name = $4)
    OR $1 = 'Secret' AND $2 = 'core' AND EXISTS (SELECT FROM mesh.secrets s WHERE s.namespace = $3 AND s.name = $4) THEN
    RETURN '';
  END IF;
  RETURN (SELECT g.name FROM mesh_internal.registry_entries f JOIN mesh_internal.registries g ON g.name = f.registry, mesh_internal.registries own
    WHERE f.name = $4 AND f.namespace = $3 AND f.kind = $1 AND f.api_group = $2 AND own.name = $5 AND (g.rank, g.name) < (own.rank, own.name)
      AND (g.ended IS NULL OR g.ended > now() - interval '1 hour') ORDER BY g.rank, g.name LIMIT 1);
END $$;

-- is_outranked reports whether an entry of a registry has the name of a resource that counts first.
CREATE OR REPLACE FUNCTION mesh_internal.is_outranked(kind text, api_group text, namespace text, name text, registry text) RETURNS boolean
LANGUAGE sql STABLE AS $$ SELECT mesh_internal.outranker_of($1, $2, $3, $4, $5) IS NOT NULL $$;

-- every_link has the links of all resources. Its two parts are tables without conditions: only so
-- does Postgres look up in both what is named. Hence the columns: own, which leaves one of them out,
-- and hidden, which is to be asked of each row.
CREATE OR REPLACE VIEW mesh_internal.every_link AS
  SELECT l.kind, l.api_group, l.namespace, l.name, l.role, l.target, l.part, l.port, l.scope, l.detail, l.path, true AS own, NULL::text AS registry, false AS hidden
  FROM mesh_internal.links l
  UNION ALL
  SELECT l.kind, l.api_group, l.namespace, l.name, l.role, l.target, l.part, l.port, l.scope, l.detail, l.path, false, l.registry,
    mesh_internal.is_outranked(l.kind, l.api_group, l.namespace, l.name, l.registry)
  FROM mesh_internal.registry_links l;

COMMENT ON VIEW mesh_internal.every_link IS 'Internal. Read mesh.problems.';

-- every_resource has all resources, each with the registry that has it.
CREATE OR REPLACE VIEW mesh_internal.every_resource AS
  SELECT r.kind, r.api_group, r.namespace, r.name, r.spec, true AS own, NULL::text AS registry FROM mesh.resources r
  UNION ALL
  SELECT e.kind, e.api_group, e.namespace, e.name, e.spec, false, e.registry FROM mesh_internal.registry_entries e;

COMMENT ON VIEW mesh_internal.every_resource IS 'Internal. Read mesh.problems.';
