-- The MeshConfig and the MeshNetworks, the kinds of the group core, configure the whole mesh. They
-- count in one namespace only, and only who may write to every namespace changes them. If the
-- oldest counted anywhere, who may write to one namespace could decide about all.

-- mesh_namespace returns that namespace, whichever root namespace the MeshConfig names.
CREATE OR REPLACE FUNCTION mesh_internal.mesh_namespace() RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT 'istio-system' $$;

COMMENT ON FUNCTION mesh_internal.mesh_namespace IS 'The namespace in which the MeshConfig and the MeshNetworks count.';

-- mesh_config returns the spec of the MeshConfig; NULL if there is none. Only a database older than
-- this rule can have several; then the oldest counts.
CREATE OR REPLACE FUNCTION mesh.mesh_config() RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN (SELECT r.spec FROM mesh.resources r
    WHERE r.kind = 'MeshConfig' AND r.api_group = 'core' AND r.namespace = mesh_internal.mesh_namespace() ORDER BY r.created_at, r.name LIMIT 1);
END $$;

COMMENT ON FUNCTION mesh.mesh_config IS 'Returns the spec of the MeshConfig in force; NULL if there is none that the acting role may read.';

-- root_namespace returns the namespace whose rules apply to the whole mesh.
CREATE OR REPLACE FUNCTION mesh_internal.root_namespace() RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN coalesce(nullif(mesh_internal.field_of(mesh.mesh_config(), '{rootNamespace}', 'root_namespace') #>> '{}', ''), 'istio-system');
END $$;

-- commit_mesh_config runs at the commit of a transaction that changed either kind, once others have
-- to wait. It refuses a second one, and stores the trust domains where servers read them.
CREATE OR REPLACE FUNCTION mesh_internal.commit_mesh_config(of bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  second record;
  config jsonb;
  names  text[];
BEGIN
  SELECT c.kind, c.namespace, c.name, o.name AS first INTO second
    FROM mesh_internal.changes c JOIN mesh.resources o ON o.kind = c.kind AND o.api_group = 'core' AND o.namespace = c.namespace AND o.name <> c.name
    WHERE c.transaction_id = of AND c.api_group = 'core' AND c.before_spec IS NULL AND c.after_spec IS NOT NULL LIMIT 1;
  IF FOUND AND NOT mesh_internal.does_own_work('adopting') THEN
    PERFORM mesh_internal.refuse('23514', second.kind, second.namespace, second.name, 'metadata.name',
      format('the mesh has its %s, which is %s/%s', second.kind, second.namespace, second.first), 'change that one');
  END IF;
  config := mesh.mesh_config();
  names := ARRAY[coalesce(nullif(mesh_internal.field_of(config, '{trustDomain}', 'trust_domain') #>> '{}', ''), 'cluster.local')]
    || ARRAY(SELECT a #>> '{}' FROM jsonb_path_query(mesh_internal.field_of(config, '{trustDomainAliases}', 'trust_domain_aliases'), '$[*] ? (@.type() == "string")') a);
  UPDATE mesh_internal.trust_names SET domains = names WHERE domains <> names;
END $$;

DROP FUNCTION IF EXISTS mesh_internal.settle_mesh_config(bigint); -- its name in earlier programs

-- require_mesh lets only who may write to every namespace change what configures the whole mesh.
CREATE OR REPLACE FUNCTION mesh_internal.require_mesh(kind text) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE insufficient_privilege USING
    MESSAGE = format('the role %s may not write the %s, which configures the whole mesh', quote_ident(mesh_internal.acting_role()), kind),
    HINT    = format('have the owner of the mesh change it, or run: SELECT mesh.grant_namespace(%L, %L, ''write'')', mesh_internal.acting_role(), '*');
END $$;

-- Resources that came to other namespaces before there was this rule.
CREATE OR REPLACE VIEW mesh_internal.misplaced_mesh_configs AS
  SELECT 'error' AS severity, 'misplaced' AS code, r.kind, r.api_group, r.namespace, r.name, 'metadata.namespace' AS path,
    format('a %s configures the whole mesh, and counts in the namespace "%s" alone', r.kind, mesh_internal.mesh_namespace()) AS message,
    'delete it' AS hint
  FROM mesh.resources r
  WHERE r.api_group = 'core' AND r.kind IN ('MeshConfig', 'MeshNetworks') AND r.namespace <> mesh_internal.mesh_namespace();

COMMENT ON VIEW mesh_internal.misplaced_mesh_configs IS 'Internal. Read mesh.problems.';
