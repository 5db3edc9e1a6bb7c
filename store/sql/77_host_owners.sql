-- Hosts have owners, as soon as the owner of the mesh says so: namespaces, which alone claim them for others. Of several patterns that fit a host the
-- narrowest counts. What stays within its namespace claims nothing from others, unless the host is reserved: that is nobody's.

-- owner_of_host is the namespace that has a host; empty if nobody may have it, and NULL if everybody may.
CREATE OR REPLACE FUNCTION mesh.owner_of_host(host text) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN (SELECT o.namespace FROM mesh.host_owners o WHERE o.pattern = host OR mesh.is_within(host, o.pattern)
    ORDER BY o.pattern = host DESC, length(o.pattern) DESC LIMIT 1);
END $$;

COMMENT ON FUNCTION mesh.owner_of_host IS 'The namespace that alone may claim a host for others; empty if nobody may, NULL if everybody may.';

-- check_host_pattern refuses what no host is like.
CREATE OR REPLACE FUNCTION mesh.check_host_pattern(pattern text) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF (pattern ~ '^(\*|(\*\.)?[a-zA-Z0-9_]([-a-zA-Z0-9_]*[a-zA-Z0-9_])?(\.[a-zA-Z0-9_]([-a-zA-Z0-9_]*[a-zA-Z0-9_])?)*)$' AND length(pattern) <= 253) IS NOT TRUE THEN
    RAISE invalid_parameter_value USING MESSAGE = format('%L is no pattern of hosts', pattern), HINT = 'write a host such as pay.example, *.pay.example for all below it, or * for all';
  END IF;
  RETURN lower(pattern);
END $$;

-- grant_hosts makes a namespace the owner of hosts; an empty one stands for nobody.
CREATE OR REPLACE FUNCTION mesh.grant_hosts(namespace text, pattern text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  broken bigint;
BEGIN
  PERFORM mesh.require_owner('grant hosts');
  IF namespace <> '' AND NOT mesh.is_namespace(namespace) THEN
    RAISE invalid_parameter_value USING MESSAGE = format('%L is not a valid namespace', namespace), HINT = 'name one, or write an empty string for nobody';
  END IF;
  INSERT INTO mesh.host_owners AS o (pattern, namespace, granted_by) VALUES (mesh.check_host_pattern(pattern), namespace, mesh.acting_role())
    ON CONFLICT ON CONSTRAINT host_owners_pkey DO UPDATE SET namespace = EXCLUDED.namespace, granted_by = EXCLUDED.granted_by, granted_at = now();
  SELECT count(DISTINCT (f.kind, f.namespace, f.name)) INTO broken FROM mesh.foreign_hosts f;
  IF broken > 0 THEN
    RAISE WARNING USING MESSAGE = format('%s resources claim hosts that other namespaces own', broken), HINT = 'mesh.problems has them with the code foreign-host; they stay until they are deleted';
  END IF;
END $$;

COMMENT ON FUNCTION mesh.grant_hosts IS 'Makes a namespace the owner of the hosts of a pattern, which it alone may claim for others from then on. An empty namespace stands for nobody.';

-- revoke_hosts takes that back, and says whether there was anything to take.
CREATE OR REPLACE FUNCTION mesh.revoke_hosts(pattern text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM mesh.require_owner('revoke hosts');
  DELETE FROM mesh.host_owners o WHERE o.pattern = lower(revoke_hosts.pattern);
  RETURN FOUND;
END $$;

COMMENT ON FUNCTION mesh.revoke_hosts IS 'Takes back what mesh.grant_hosts granted, by its pattern, and says whether there was anything.';

-- find_host_grants lists the owners of hosts, to those who may read the namespace.
CREATE OR REPLACE FUNCTION mesh.find_host_grants() RETURNS SETOF mesh.host_owners
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN QUERY SELECT o.* FROM mesh.host_owners o WHERE mesh.sees_all() OR o.namespace = ANY (mesh.readable_namespaces());
END $$;

CREATE OR REPLACE VIEW mesh.host_grants AS SELECT namespace, pattern, granted_by, granted_at FROM mesh.find_host_grants();

COMMENT ON VIEW mesh.host_grants IS 'Which namespaces own which hosts. Change it by mesh.grant_hosts and mesh.revoke_hosts. Others than the owner see those of their namespaces.';

-- is_foreign tells whether a namespace claims a host that is another's. A wildcard claims what is below it, too; a server of a gateway is asked for what
-- routes name, and claims nothing more.
CREATE OR REPLACE FUNCTION mesh.is_foreign(namespace text, role text, host text, scope text[]) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  owner text := mesh.owner_of_host(host);
BEGIN
  IF owner = '' THEN
    RETURN true;
  ELSIF role <> 'server' AND scope <@ ARRAY[namespace] THEN
    RETURN false;
  END IF;
  RETURN owner <> namespace OR role <> 'server' AND host LIKE '*%'
    AND EXISTS (SELECT FROM mesh.host_owners o WHERE o.namespace <> is_foreign.namespace AND mesh.is_within(o.pattern, host));
END $$;

-- default_scope is whom a resource is for that does not say: of the MeshConfig, or everybody.
CREATE OR REPLACE FUNCTION mesh.default_scope(kind text, namespace text) RETURNS text[]
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  config jsonb := mesh.mesh_config();
BEGIN
  RETURN mesh.exported(CASE kind
    WHEN 'VirtualService' THEN mesh.field_of(config, '{defaultVirtualServiceExportTo}', 'default_virtual_service_export_to')
    WHEN 'DestinationRule' THEN mesh.field_of(config, '{defaultDestinationRuleExportTo}', 'default_destination_rule_export_to')
    ELSE mesh.field_of(config, '{defaultServiceExportTo}', 'default_service_export_to') END, namespace);
END $$;

-- claims_of lists what a resource claims for others than its namespace.
CREATE OR REPLACE FUNCTION mesh.claims_of(kind text, api_group text, namespace text, name text, spec jsonb)
RETURNS TABLE (role text, host text, scope text[], path text)
LANGUAGE sql STABLE AS $$
  SELECT DISTINCT ON (l.role, l.target) l.role, l.target,
    CASE WHEN l.role = 'server' OR jsonb_typeof(spec -> 'exportTo') = 'array' AND spec -> 'exportTo' <> '[]' OR l.scope <> '{*}' THEN l.scope ELSE mesh.default_scope(kind, namespace) END, l.path
  FROM mesh.links_of(kind, api_group, namespace, name, spec) l
  WHERE l.role IN ('claim', 'service', 'server') OR l.role = 'rule' AND l.part = ''
$$;

-- refuse_foreign refuses a transaction in which somebody who may not write everywhere claims a host that is another's.
CREATE OR REPLACE FUNCTION mesh.refuse_foreign(of bigint) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  c     record;
  owner text;
BEGIN
  IF NOT EXISTS (SELECT FROM mesh.host_owners) THEN
    RETURN;
  END IF;
  SELECT w.kind, w.namespace, w.name, h.host, h.path INTO c
    FROM mesh.changes w, LATERAL mesh.claims_of(w.kind, w.api_group, w.namespace, w.name, w.after_spec) h
    WHERE w.transaction_id = of AND w.after_spec IS NOT NULL AND w.after_spec IS DISTINCT FROM w.before_spec
      AND w.kind IN ('VirtualService', 'DestinationRule', 'ServiceEntry', 'Gateway') AND mesh.is_foreign(w.namespace, h.role, h.host, h.scope)
    LIMIT 1;
  IF FOUND THEN
    owner := mesh.owner_of_host(c.host);
    PERFORM mesh.refuse('MS001', c.kind, c.namespace, c.name, c.path,
      format('the host "%s" is not the namespace "%s"''s to claim for others%s', c.host, c.namespace,
        CASE WHEN owner <> '' AND (mesh.sees_all() OR owner = ANY (mesh.readable_namespaces())) THEN format(': "%s" owns it', owner) ELSE '' END),
      'claim a host of your own, or write exportTo: ["."] to have it for the namespace alone; the owner of the mesh grants hosts (mesh.grant_hosts)');
  END IF;
END $$;

-- What was there before its hosts had an owner, and what those wrote who may write everywhere.
CREATE OR REPLACE VIEW mesh.foreign_hosts AS
  SELECT 'error' AS severity, 'foreign-host' AS code, r.kind, r.api_group, r.namespace, r.name, h.path,
    format('the host "%s" is not the namespace''s to claim for others', h.host) AS message,
    'claim another, write exportTo: ["."], or have the host granted (mesh.grant_hosts)' AS hint
  FROM mesh.resources r, LATERAL mesh.claims_of(r.kind, r.api_group, r.namespace, r.name, r.spec) h
  WHERE EXISTS (SELECT FROM mesh.host_owners) AND r.kind IN ('VirtualService', 'DestinationRule', 'ServiceEntry', 'Gateway')
    AND mesh.is_foreign(r.namespace, h.role, h.host, h.scope);

COMMENT ON VIEW mesh.foreign_hosts IS 'Internal. Read mesh.problems.';
