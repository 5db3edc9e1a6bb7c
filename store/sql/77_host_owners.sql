-- Hosts and addresses have owners, once the owner of the mesh grants them to namespaces, which
-- alone claim them for others. If several patterns fit a host, the narrowest counts. What stays
-- within its namespace claims nothing from others, unless the host is reserved and nobody's.

-- covers reports whether a pattern fits a host, an address or a range of addresses.
CREATE OR REPLACE FUNCTION mesh_internal.covers(pattern text, host text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF mesh_internal.is_cidr(pattern) AND mesh_internal.is_cidr(host) THEN
    RETURN pattern::inet >>= split_part(host, '%', 1)::inet;
  END IF;
  RETURN pattern = host OR mesh_internal.is_within(host, pattern);
END $$;

-- note_control_plane records the names in the certificate of a server: whoever took them would be
-- asked in its place. A name without a dot belongs to the machine alone. A name is forgotten if no
-- certificate was given for it in 45 days.
CREATE OR REPLACE FUNCTION mesh_internal.note_control_plane(member text, hosts text[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM mesh_internal.require_server('note the names of servers');
  DELETE FROM mesh_internal.control_plane_names n WHERE n.seen_at < now() - interval '45 days';
  INSERT INTO mesh_internal.control_plane_names AS n (host, member)
    SELECT DISTINCT lower(h), left(note_control_plane.member, 2048) FROM unnest(hosts[:64]) h WHERE strpos(h, '.') > 0 AND length(h) <= 253 ORDER BY 1
    ON CONFLICT (host) DO UPDATE SET member = EXCLUDED.member, seen_at = now();
END $$;

COMMENT ON FUNCTION mesh_internal.note_control_plane IS 'Internal. Servers tell by it the names that they are dialled by.';

-- owner_of_host returns the namespace that has a host; empty if nobody may have it, and NULL if
-- everybody may. A name of the control plane is nobody's, unless it was granted explicitly.
CREATE OR REPLACE FUNCTION mesh.owner_of_host(host text) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  o mesh_internal.host_owners;
BEGIN
  SELECT * INTO o FROM mesh_internal.host_owners x WHERE mesh_internal.covers(x.pattern, host)
    ORDER BY x.pattern = host DESC, CASE WHEN mesh_internal.is_cidr(x.pattern) THEN 1000 + masklen(x.pattern::inet) ELSE length(x.pattern) END DESC LIMIT 1;
  IF o.pattern IS DISTINCT FROM host AND EXISTS (SELECT FROM mesh_internal.control_plane_names n WHERE n.host = owner_of_host.host) AND EXISTS (SELECT FROM mesh_internal.host_owners) THEN
    RETURN '';
  END IF;
  RETURN o.namespace;
END $$;

COMMENT ON FUNCTION mesh.owner_of_host IS 'Returns the namespace that alone may claim a host or an address for others; empty if nobody may, NULL if everybody may.';

-- check_host_pattern refuses patterns that fit no host and are no range of addresses.
CREATE OR REPLACE FUNCTION mesh_internal.check_host_pattern(pattern text) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF mesh_internal.is_cidr(pattern) AND strpos(pattern, '%') = 0 THEN
    RETURN network(pattern::inet)::text;
  END IF;
  IF (pattern ~ '^(\*|(\*\.)?[a-zA-Z0-9_]([-a-zA-Z0-9_]*[a-zA-Z0-9_])?(\.[a-zA-Z0-9_]([-a-zA-Z0-9_]*[a-zA-Z0-9_])?)*)$' AND length(pattern) <= 253) IS NOT TRUE THEN
    RAISE invalid_parameter_value USING MESSAGE = format('%L is no pattern of hosts', pattern), HINT = 'write a host such as pay.example, *.pay.example for all below it, a range of addresses such as 10.1.0.0/16, or * for all';
  END IF;
  RETURN lower(pattern);
END $$;

-- grant_hosts makes a namespace the owner of hosts; an empty namespace stands for nobody.
CREATE OR REPLACE FUNCTION mesh.grant_hosts(namespace text, pattern text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  broken bigint;
BEGIN
  PERFORM mesh_internal.require_server('grant hosts');
  IF namespace <> '' AND NOT mesh_internal.is_namespace(namespace) THEN
    RAISE invalid_parameter_value USING MESSAGE = format('%L is not a valid namespace', namespace), HINT = 'name one, or write an empty string for nobody';
  END IF;
  INSERT INTO mesh_internal.host_owners AS o (pattern, namespace, granted_by) VALUES (mesh_internal.check_host_pattern(pattern), namespace, mesh_internal.author())
    ON CONFLICT ON CONSTRAINT host_owners_pkey DO UPDATE SET namespace = EXCLUDED.namespace, granted_by = EXCLUDED.granted_by, granted_at = now();
  broken := mesh_internal.foreign_claims();
  IF broken > 0 THEN
    RAISE WARNING USING MESSAGE = format('%s resources claim hosts or addresses that other namespaces own', broken), HINT = 'mesh.problems has them with the code foreign-host; they stay until they are deleted';
  END IF;
END $$;

COMMENT ON FUNCTION mesh.grant_hosts IS 'Makes a namespace the owner of the hosts that match a pattern: from then on only it may claim them for others. An empty namespace stands for nobody.';

-- revoke_hosts takes that back, and says whether there was anything to take.
CREATE OR REPLACE FUNCTION mesh.revoke_hosts(pattern text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM mesh_internal.require_server('revoke hosts');
  DELETE FROM mesh_internal.host_owners o WHERE o.pattern = mesh_internal.check_host_pattern(revoke_hosts.pattern);
  RETURN FOUND;
END $$;

COMMENT ON FUNCTION mesh.revoke_hosts IS 'Takes back a grant of mesh.grant_hosts, by its pattern, and returns whether there was one.';

-- find_host_grants lists the owners of hosts, to those who may read the namespace.
CREATE OR REPLACE FUNCTION mesh_internal.find_host_grants() RETURNS SETOF mesh_internal.host_owners
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN QUERY SELECT o.* FROM mesh_internal.host_owners o WHERE mesh_internal.sees_all() OR o.namespace = ANY (mesh_internal.readable_namespaces());
END $$;

CREATE OR REPLACE VIEW mesh.host_grants AS SELECT namespace, pattern, granted_by, granted_at FROM mesh_internal.find_host_grants();

COMMENT ON VIEW mesh.host_grants IS 'Which namespaces own which hosts. mesh.grant_hosts and mesh.revoke_hosts change it. Roles other than the owner see the hosts of their namespaces.';
COMMENT ON COLUMN mesh.host_grants.namespace IS 'Who owns the hosts; empty if nobody may claim them.';
COMMENT ON COLUMN mesh.host_grants.pattern IS 'A host, a wildcard such as *.example.com, an address or a range of addresses.';
COMMENT ON COLUMN mesh.host_grants.granted_by IS 'Which role granted it.';
COMMENT ON COLUMN mesh.host_grants.granted_at IS 'When.';

-- is_foreign reports whether a namespace claims a host that belongs to another. A wildcard also
-- claims what is below it, and a range the addresses in it. A server of a gateway gets only
-- requests for what routes name, so it claims nothing more. Addresses that services without one are
-- given automatically are nobody's.
CREATE OR REPLACE FUNCTION mesh_internal.is_foreign(namespace text, role text, host text, scope text[]) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  owner text := mesh.owner_of_host(host);
BEGIN
  IF owner = '' OR owner IS NULL AND role = 'address' AND (mesh_internal.covers('240.240.0.0/16', host) OR mesh_internal.covers('2001:2::/48', host)) THEN
    RETURN true;
  ELSIF role <> 'server' AND scope <@ ARRAY[namespace] THEN
    RETURN false;
  END IF;
  RETURN owner <> namespace OR role <> 'server' AND (host LIKE '*%' OR host LIKE '%/%')
    AND EXISTS (SELECT FROM mesh_internal.host_owners o WHERE o.namespace <> is_foreign.namespace AND mesh_internal.covers(host, o.pattern));
END $$;

-- default_scope returns whom a resource is for that does not say: as the MeshConfig says, or
-- everybody.
CREATE OR REPLACE FUNCTION mesh_internal.default_scope(kind text, namespace text) RETURNS text[]
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  config jsonb := mesh.mesh_config();
BEGIN
  RETURN mesh_internal.exported(CASE kind
    WHEN 'VirtualService' THEN mesh_internal.field_of(config, '{defaultVirtualServiceExportTo}', 'default_virtual_service_export_to')
    WHEN 'DestinationRule' THEN mesh_internal.field_of(config, '{defaultDestinationRuleExportTo}', 'default_destination_rule_export_to')
    ELSE mesh_internal.field_of(config, '{defaultServiceExportTo}', 'default_service_export_to') END, namespace);
END $$;

-- claims_of lists what a resource claims for others than its namespace. A port whose protocol does
-- not tell the host is opened on the addresses of its service, or on all if it has none.
CREATE OR REPLACE FUNCTION mesh_internal.claims_of(kind text, api_group text, namespace text, name text, spec jsonb)
RETURNS TABLE (role text, host text, scope text[], path text)
LANGUAGE sql STABLE AS $$
  SELECT DISTINCT ON (l.role, l.target) l.role, l.target,
    CASE WHEN l.role = 'server' OR jsonb_typeof(spec -> 'exportTo') = 'array' AND spec -> 'exportTo' <> '[]' OR l.scope <> '{*}' THEN l.scope ELSE mesh_internal.default_scope(kind, namespace) END, l.path
  FROM mesh_internal.links_of(kind, api_group, namespace, name, spec, NULL) l
  WHERE l.role IN ('claim', 'service', 'server', 'address') OR l.role = 'rule' AND l.part = ''
  UNION ALL
  SELECT 'address', everything, CASE WHEN jsonb_typeof(spec -> 'exportTo') = 'array' AND spec -> 'exportTo' <> '[]'
      THEN mesh_internal.exported(spec -> 'exportTo', namespace) ELSE mesh_internal.default_scope(kind, namespace) END, 'spec.addresses'
  FROM unnest('{0.0.0.0/0,::/0}'::text[]) everything
  WHERE kind = 'ServiceEntry' AND coalesce(nullif(spec -> 'addresses', 'null'), '[]') = '[]'
    AND EXISTS (SELECT FROM jsonb_path_query(spec -> 'ports', '$[*]') p WHERE coalesce(mesh_internal.listener_class(p ->> 'protocol'), 'tcp') IN ('tcp', 'greeting'))
$$;

-- refuse_foreign refuses a transaction that claims a host of another namespace, unless its role may
-- write everywhere.
CREATE OR REPLACE FUNCTION mesh_internal.refuse_foreign(of bigint) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  c     record;
  owner text;
BEGIN
  IF NOT EXISTS (SELECT FROM mesh_internal.host_owners) THEN
    RETURN;
  END IF;
  SELECT w.kind, w.namespace, w.name, h.role, h.host, h.path INTO c
    FROM mesh_internal.changes w, LATERAL mesh_internal.claims_of(w.kind, w.api_group, w.namespace, w.name, w.after_spec) h
    WHERE w.transaction_id = of AND w.after_spec IS NOT NULL AND w.after_spec IS DISTINCT FROM w.before_spec
      AND w.kind IN ('VirtualService', 'DestinationRule', 'ServiceEntry', 'Gateway') AND mesh_internal.is_foreign(w.namespace, h.role, h.host, h.scope)
    LIMIT 1;
  IF FOUND THEN
    owner := mesh.owner_of_host(c.host);
    PERFORM mesh_internal.refuse('23514', c.kind, c.namespace, c.name, c.path,
      format('the %s "%s" is not the namespace "%s"''s to claim for others%s', CASE c.role WHEN 'address' THEN 'address' ELSE 'host' END, c.host, c.namespace,
        CASE WHEN owner <> '' AND (mesh_internal.shows_all() OR owner = ANY (mesh_internal.shown_namespaces())) THEN format(': "%s" owns it', owner) ELSE '' END),
      CASE WHEN c.path = 'spec.addresses' THEN 'give the service addresses of its own, for a port of TCP is opened on all addresses otherwise' ELSE 'claim one of your own' END
        || ', or write exportTo: ["."] to have it for the namespace alone; the owner of the mesh grants hosts and addresses (mesh.grant_hosts)');
  END IF;
END $$;

-- Claims from before the hosts had an owner, and those by roles that may write everywhere.
CREATE OR REPLACE VIEW mesh_internal.foreign_hosts AS
  SELECT 'error' AS severity, 'foreign-host' AS code, r.kind, r.api_group, r.namespace, r.name, h.path,
    format('the %s "%s" is not the namespace''s to claim for others', CASE h.role WHEN 'address' THEN 'address' ELSE 'host' END, h.host) AS message,
    'claim another, write exportTo: ["."], or have the host granted (mesh.grant_hosts)' AS hint
  FROM mesh.resources r, LATERAL mesh_internal.claims_of(r.kind, r.api_group, r.namespace, r.name, r.spec) h
  WHERE EXISTS (SELECT FROM mesh_internal.host_owners) AND r.kind IN ('VirtualService', 'DestinationRule', 'ServiceEntry', 'Gateway')
    AND mesh_internal.is_foreign(r.namespace, h.role, h.host, h.scope);

COMMENT ON VIEW mesh_internal.foreign_hosts IS 'Internal. Read mesh.problems.';

-- foreign_claims returns how many resources claim what others own.
CREATE OR REPLACE FUNCTION mesh_internal.foreign_claims() RETURNS bigint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN (SELECT count(DISTINCT (f.kind, f.namespace, f.name)) FROM mesh_internal.foreign_hosts f);
END $$;

COMMENT ON FUNCTION mesh_internal.foreign_claims IS 'How many resources claim hosts or addresses that other namespaces own, of those that the acting role may read. mesh.problems has them.';
