-- Where resources claim the same, found from links alone. Each of them has the problem, as far as the
-- reader may know of the other: a tenant must not find what is hidden by claiming it. Of services and
-- addresses that registries have, discovery tells: their order decides.

-- other_owner returns a resource with the same target in the same role, as far as the reader may
-- know of it: the first of its namespace, or of all. Each search ends with the first index row that
-- fits, because there may be thousands. An argument has the collation of the column that it comes
-- from; COLLATE "default" is that of the index, without which Postgres would read and sort them all.
CREATE OR REPLACE FUNCTION mesh_internal.other_owner(of_role text, of_target text, of_part text, of_namespace text, of_name text, of_scope text[]) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_sort = off AS $$
DECLARE
  other record;
BEGIN
  SELECT o.kind, o.namespace, o.name INTO other FROM mesh_internal.links o
  WHERE o.role = of_role COLLATE "default" AND o.target = of_target AND o.part = of_part AND o.namespace = of_namespace COLLATE "default" AND o.name <> of_name
    AND mesh_internal.overlap(o.scope, of_scope) AND mesh_internal.may_name(o.namespace, o.scope)
  ORDER BY o.name LIMIT 1;
  IF NOT FOUND THEN
    SELECT o.kind, o.namespace, o.name INTO other FROM mesh_internal.links o
    WHERE o.role = of_role COLLATE "default" AND o.target = of_target AND o.part = of_part AND o.namespace <> of_namespace
      AND mesh_internal.overlap(o.scope, of_scope) AND mesh_internal.may_name(o.namespace, o.scope)
    ORDER BY o.namespace, o.name LIMIT 1;
  END IF;
  IF NOT FOUND AND of_role <> 'service' AND (SELECT EXISTS (SELECT FROM mesh_internal.registries)) THEN
    SELECT o.kind, o.namespace, o.name INTO other FROM mesh_internal.registry_owner(of_role, of_target, of_part, of_namespace, of_name, of_scope) o;
  END IF;
  RETURN CASE WHEN other IS NULL THEN 'a resource of another namespace' ELSE format('%s %s/%s', other.kind, other.namespace, other.name) END;
END $$;

-- OFFSET 0 has Postgres look up each target by the index. Without statistics, as in the first minute
-- after an import, it would otherwise compare the one claim of a commit with those of the mesh.
CREATE OR REPLACE VIEW mesh_internal.conflicting_claims AS
  SELECT 'error' AS severity, 'host-conflict' AS code, l.kind, l.api_group, l.namespace, l.name, l.path,
    format('the host "%s" has another owner for the mesh: %s', l.target, mesh_internal.other_owner(l.role, l.target, l.part, l.namespace, l.name, l.scope)) AS message,
    'merge the two, or let exportTo keep them apart' AS hint
  FROM mesh_internal.every_link l
  WHERE l.role = 'claim' AND l.part = 'mesh' AND NOT l.hidden
    AND EXISTS (SELECT FROM mesh_internal.every_link o
      WHERE o.role = 'claim' AND o.part = 'mesh' AND o.target = l.target AND (o.namespace <> l.namespace OR o.name <> l.name) AND mesh_internal.overlap(o.scope, l.scope)
        AND mesh_internal.may_name(o.namespace, o.scope) AND NOT o.hidden OFFSET 0)
  UNION ALL
  SELECT 'error', 'captured-host', l.kind, l.api_group, l.namespace, l.name, l.path,
    format('the host "%s" is that of a ServiceEntry of another namespace, whose requests this takes from others', l.target),
    'write exportTo: ["."] to route those of your own namespace alone, or put the rule into the namespace of the ServiceEntry'
  FROM mesh_internal.links l
  WHERE l.role = 'claim' AND l.part = 'mesh' AND NOT l.scope <@ ARRAY[l.namespace] AND l.namespace <> (SELECT mesh_internal.root_namespace())
    AND EXISTS (SELECT FROM mesh_internal.links s WHERE s.role = 'service' AND s.target = l.target AND s.namespace <> l.namespace AND mesh_internal.overlap(s.scope, l.scope)
      AND mesh_internal.may_name(s.namespace, s.scope))
    AND NOT EXISTS (SELECT FROM mesh_internal.links s WHERE s.role = 'service' AND s.target = l.target AND s.namespace = l.namespace)
  UNION ALL
  SELECT 'info', 'shared-host', l.kind, l.api_group, l.namespace, l.name, l.path,
    format('the host "%s" on Gateway %s is shared with %s', l.target, l.part, mesh_internal.other_owner(l.role, l.target, l.part, l.namespace, l.name, l.scope)),
    'their routes are merged, and which come first is not defined'
  FROM mesh_internal.every_link l
  WHERE l.role = 'claim' AND l.part <> 'mesh' AND NOT l.hidden
    AND EXISTS (SELECT FROM mesh_internal.every_link o
      WHERE o.role = 'claim' AND o.part = l.part AND o.target = l.target AND (o.namespace <> l.namespace OR o.name <> l.name)
        AND mesh_internal.may_name(o.namespace, o.scope) AND NOT o.hidden);

-- may_add_ports reports whether a service has ports that another of its host lacks, and a proxy may
-- read it later: those exported to a namespace by name come first, then the older. Postgres inlines
-- it and the next one, because very many pairs may be asked about.
CREATE OR REPLACE FUNCTION mesh_internal.may_add_ports(a mesh_internal.links, b mesh_internal.links) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
  SELECT ('*' = ANY (a.scope) OR '*' <> ALL (b.scope))
    AND NOT jsonb_path_query_array(a.detail -> 'ports', '$.keyvalue().key') <@ jsonb_path_query_array(b.detail -> 'ports', '$.keyvalue().key')
$$;

-- described_otherwise reports whether two ServiceEntries of a namespace describe a common host
-- differently in a way that matters. Resolution and location alone do not. The rest decides whether
-- a proxy that sees both gives the host the ports that one adds to the other's.
CREATE OR REPLACE FUNCTION mesh_internal.described_otherwise(l mesh_internal.links, o mesh_internal.links) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
  SELECT o.detail - 'ports' <> l.detail - 'ports'
    AND (o.detail -> 'resolution' <> l.detail -> 'resolution' OR o.detail -> 'location' <> l.detail -> 'location'
      OR mesh_internal.overlap(o.scope, l.scope) AND (mesh_internal.may_add_ports(l, o) OR mesh_internal.may_add_ports(o, l)))
$$;

-- other_description returns, to those who may read both, the first ServiceEntry that describes a
-- host differently, and the fields.
CREATE OR REPLACE FUNCTION mesh_internal.other_description(l mesh_internal.links) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_sort = off AS $$
  SELECT format('%s %s/%s: %s', o.kind, o.namespace, o.name, (SELECT string_agg(field, ', ')
    FROM unnest('{resolution,location,metadata.labels,workloadSelector,exportTo}'::text[]) AS field WHERE o.detail -> field IS DISTINCT FROM l.detail -> field))
  FROM mesh_internal.links o
  WHERE o.role = l.role AND o.target = l.target AND o.part = l.part AND o.namespace = l.namespace AND o.name <> l.name
    AND mesh_internal.described_otherwise(l, o) AND mesh_internal.may_name(o.namespace, '{}')
  ORDER BY o.name LIMIT 1
$$;

CREATE OR REPLACE VIEW mesh_internal.conflicting_services AS
  SELECT 'warning' AS severity, 'conflicting-protocols' AS code, l.kind, l.api_group, l.namespace, l.name, l.path,
    format('the host "%s" has a port of another protocol in %s', l.target, mesh_internal.other_owner(l.role, l.target, l.part, l.namespace, l.name, l.scope)) AS message,
    'give each port one protocol' AS hint
  FROM mesh_internal.links l
  WHERE l.role = 'service'
    AND EXISTS (SELECT FROM mesh_internal.links o
      WHERE o.role = 'service' AND o.target = l.target AND (o.namespace <> l.namespace OR o.name <> l.name) AND mesh_internal.overlap(o.scope, l.scope)
        AND EXISTS (SELECT FROM jsonb_each(l.detail -> 'ports') p WHERE o.detail -> 'ports' -> p.key <> p.value) AND mesh_internal.may_name(o.namespace, o.scope))
  UNION ALL
  SELECT 'warning', 'conflicting-services', l.kind, l.api_group, l.namespace, l.name, l.path,
    format('the host "%s" is described otherwise in %s', l.target, mesh_internal.other_description(l)),
    'give both the same: the location is that of the older, and ports that the later adds have no clusters where anything else differs'
  FROM mesh_internal.links l
  WHERE l.role = 'service'
    AND EXISTS (SELECT FROM mesh_internal.links o
      WHERE o.role = 'service' AND o.target = l.target AND o.namespace = l.namespace AND o.name <> l.name AND mesh_internal.described_otherwise(l, o))
  UNION ALL
  SELECT 'warning', 'duplicate-service', l.kind, l.api_group, l.namespace, l.name, l.path,
    format('the host "%s" has another owner: %s', l.target, mesh_internal.other_owner(l.role, l.target, l.part, l.namespace, l.name, l.scope)),
    'sidecars use the one of their own namespace, else the older, and gateways the older: keep one, or let exportTo keep them apart'
  FROM mesh_internal.links l
  WHERE l.role = 'service'
    AND EXISTS (SELECT FROM mesh_internal.links o
      WHERE o.role = 'service' AND o.target = l.target AND o.namespace <> l.namespace AND mesh_internal.overlap(o.scope, l.scope)
        AND mesh_internal.may_name(o.namespace, o.scope));

-- rivals_of returns the parts, each a port and a class, with which a part cannot share an address:
-- proxies listen there for only one of them.
CREATE OR REPLACE FUNCTION mesh_internal.rivals_of(part text) RETURNS text[]
LANGUAGE sql IMMUTABLE AS $$
  SELECT ARRAY(SELECT split_part(part, ' ', 1) || ' ' || rival FROM unnest(CASE split_part(part, ' ', 2)
    WHEN 'http' THEN '{tls,tcp,greeting}' WHEN 'tls' THEN '{http,greeting}' WHEN 'tcp' THEN '{http,tcp,greeting}' ELSE '{http,tls,tcp,greeting}' END::text[]) AS rival)
$$;

CREATE OR REPLACE VIEW mesh_internal.conflicting_addresses AS
  SELECT 'warning' AS severity, 'address-conflict' AS code, l.kind, l.api_group, l.namespace, l.name, l.path,
    format('port %s of the address %s cannot be shared with another ServiceEntry: %s', split_part(l.part, ' ', 1), l.target,
      mesh_internal.other_owner(l.role, l.target, (SELECT min(o.part) FROM mesh_internal.links o
        WHERE o.role = 'address' AND o.target = l.target AND o.part = ANY (mesh_internal.rivals_of(l.part)) AND (o.namespace <> l.namespace OR o.name <> l.name)
          AND mesh_internal.overlap(o.scope, l.scope) AND o.detail <> l.detail), l.namespace, l.name, l.scope)) AS message,
    'give each an address of its own, or declare both as HTTP or as TLS, which are told apart by hosts' AS hint
  FROM mesh_internal.links l
  WHERE l.role = 'address'
    AND EXISTS (SELECT FROM mesh_internal.links o
      WHERE o.role = 'address' AND o.target = l.target AND o.part = ANY (mesh_internal.rivals_of(l.part)) AND (o.namespace <> l.namespace OR o.name <> l.name)
        AND mesh_internal.overlap(o.scope, l.scope) AND o.detail <> l.detail AND mesh_internal.may_name(o.namespace, o.scope)); -- those of the same hosts are one service

CREATE OR REPLACE VIEW mesh_internal.conflicting_rules AS
  SELECT 'warning' AS severity, 'duplicate-subset' AS code, l.kind, l.api_group, l.namespace, l.name, l.path,
    format('subset "%s" of the host "%s" is declared in %s too', l.part, l.target, mesh_internal.other_owner(l.role, l.target, l.part, l.namespace, l.name, l.scope)) AS message,
    'keep one: only the older counts' AS hint
  FROM mesh_internal.every_link l
  WHERE l.role = 'rule' AND l.part <> '' AND NOT l.hidden
    AND EXISTS (SELECT FROM mesh_internal.every_link o
      WHERE o.role = 'rule' AND o.target = l.target AND o.part = l.part AND o.namespace = l.namespace AND o.name <> l.name
        AND o.detail -> 'selector' = l.detail -> 'selector' AND mesh_internal.overlap(o.scope, l.scope))
  UNION ALL
  SELECT 'warning', 'duplicate-rule', l.kind, l.api_group, l.namespace, l.name, l.path,
    format('the host "%s" has a traffic policy in %s too', l.target, mesh_internal.other_owner(l.role, l.target, l.part, l.namespace, l.name, l.scope)), 'keep one: only the older counts'
  FROM mesh_internal.every_link l
  WHERE l.role = 'rule' AND l.part = '' AND (l.detail -> 'policy')::boolean AND NOT l.hidden
    AND EXISTS (SELECT FROM mesh_internal.every_link o
      WHERE o.role = 'rule' AND o.target = l.target AND o.part = '' AND o.namespace = l.namespace AND o.name <> l.name
        AND o.detail = l.detail AND mesh_internal.overlap(o.scope, l.scope) AND NOT o.hidden);

-- Two selectors may select the same proxy if one contains the other. Servers of HTTP that share a
-- host are merged. Where TLS ends, only the server name tells two apart, whichever namespaces they
-- are open to. Plain TCP shares a port with nothing.
CREATE OR REPLACE VIEW mesh_internal.conflicting_gateways AS
  SELECT CASE l.detail ->> 'class' WHEN 'http' THEN 'info' ELSE 'error' END AS severity, 'gateway-conflict' AS code, l.kind, l.api_group, l.namespace, l.name, l.path,
    format('port %s serves the host "%s" for another Gateway: %s', l.part, l.target, mesh_internal.other_owner(l.role, l.target, l.part, l.namespace, l.name, l.scope)) AS message,
    CASE l.detail ->> 'class' WHEN 'http' THEN 'their routes are merged' ELSE 'keep the host in one Gateway, or give the two different selectors' END AS hint
  FROM mesh_internal.every_link l
  WHERE l.role = 'server' AND NOT l.hidden
    AND EXISTS (SELECT FROM mesh_internal.every_link o
      WHERE o.role = 'server' AND o.target = l.target AND o.part = l.part AND (o.namespace <> l.namespace OR o.name <> l.name)
        AND o.detail -> 'bind' = l.detail -> 'bind' AND o.detail -> 'class' = l.detail -> 'class' AND l.detail ->> 'class' <> 'tcp'
        AND (mesh_internal.overlap(o.scope, l.scope) OR l.detail ->> 'class' = 'tls' AND NOT (o.detail -> 'passes')::boolean AND NOT (l.detail -> 'passes')::boolean)
        AND (o.detail -> 'selector' @> (l.detail -> 'selector') OR o.detail -> 'selector' <@ (l.detail -> 'selector')) AND mesh_internal.may_name(o.namespace, o.scope) AND NOT o.hidden)
  UNION ALL
  SELECT 'error', 'port-conflict', l.kind, l.api_group, l.namespace, l.name, l.path || '.protocol',
    format('port %s has a protocol that does not go together with that of another Gateway on the same proxies', l.target),
    'use another port, or give the two different selectors'
  FROM mesh_internal.every_link l
  WHERE l.role = 'port' AND NOT l.hidden -- whoever reaches the gateway sees its ports, so that one is taken is told to all
    AND EXISTS (SELECT FROM mesh_internal.every_link o
      WHERE o.role = 'port' AND o.target = l.target AND o.part = ANY (CASE l.part WHEN 'tcp' THEN '{http,tls,tcp}' ELSE array_remove('{http,tls,tcp}', l.part) END) AND (o.namespace <> l.namespace OR o.name <> l.name)
        AND o.detail -> 'bind' = l.detail -> 'bind'
        AND (o.detail -> 'selector' @> (l.detail -> 'selector') OR o.detail -> 'selector' <@ (l.detail -> 'selector')) AND NOT o.hidden);

CREATE OR REPLACE VIEW mesh_internal.conflicting_defaults AS
  SELECT 'error' AS severity, 'duplicate-default' AS code, l.kind, l.api_group, l.namespace, l.name, l.path,
    format('namespace "%s" has more than one %s without a selector', l.namespace, l.kind) AS message,
    'keep one, or select workloads' AS hint
  FROM mesh_internal.every_link l
  WHERE l.role = 'default' AND NOT l.hidden
    AND EXISTS (SELECT FROM mesh_internal.every_link o WHERE o.role = 'default' AND o.target = l.target AND o.kind = l.kind AND o.name <> l.name AND NOT o.hidden);

-- Before hosts have owners, who takes a name of the control plane is told so, and so is everybody
-- who looks.
CREATE OR REPLACE VIEW mesh_internal.control_plane_claims AS
  SELECT 'error' AS severity, 'control-plane-host' AS code, l.kind, l.api_group, l.namespace, l.name, l.path,
    format('the host "%s" is a name of the control plane: machines that believe this ask somebody else in its place', l.target) AS message,
    'take another name; once hosts have owners, nobody can claim it (mesh.grant_hosts)' AS hint
  FROM mesh_internal.control_plane_names n JOIN mesh_internal.links l ON l.target = n.host
  WHERE l.role IN ('service', 'claim') AND l.namespace <> (SELECT mesh_internal.root_namespace()) AND NOT EXISTS (SELECT FROM mesh_internal.host_owners);

COMMENT ON VIEW mesh_internal.control_plane_claims IS 'Internal. Read mesh.problems.';

-- service_host is the host of the Service that a reference NAMESPACE/NAME names, and service_at the
-- reference for a host; NULL if it is none of a Service.
CREATE OR REPLACE FUNCTION mesh_internal.service_host(reference text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
  SELECT lower(split_part(reference, '/', 2) || '.' || split_part(reference, '/', 1) || '.svc.cluster.local')
$$;

CREATE OR REPLACE FUNCTION mesh_internal.service_at(host text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN host LIKE '%.svc.cluster.local' THEN split_part(host, '.', 2) || '/' || split_part(host, '.', 1) END
$$;

-- routes_for returns what attaches routes of the Gateway API for requests to a host: to its Service, or
-- to a ServiceEntry. It looks up one after the other: without statistics, Postgres would read all parents
-- for a join or a list.
CREATE OR REPLACE FUNCTION mesh_internal.routes_for(host text) RETURNS SETOF mesh_internal.links
LANGUAGE plpgsql STABLE ROWS 1 SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  entry   text;
  service text := mesh_internal.service_at(host);
BEGIN
  RETURN QUERY SELECT a.* FROM mesh_internal.links a WHERE a.role = 'parent' AND a.target = service AND a.part = 'Service' AND a.kind IN ('HTTPRoute', 'GRPCRoute');
  FOR entry IN SELECT s.namespace || '/' || s.name FROM mesh_internal.links s WHERE s.role = 'service' AND s.target = host LOOP
    RETURN QUERY SELECT a.* FROM mesh_internal.links a WHERE a.role = 'parent' AND a.target = entry AND a.part = 'ServiceEntry' AND a.kind IN ('HTTPRoute', 'GRPCRoute');
  END LOOP;
END $$;

-- rules_for returns the claims of VirtualServices for requests to what a route is attached to.
CREATE OR REPLACE FUNCTION mesh_internal.rules_for(service mesh_internal.links) RETURNS SETOF mesh_internal.links
LANGUAGE plpgsql STABLE ROWS 1 SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  of_namespace text   := split_part(service.target, '/', 1);
  of_name      text   := split_part(service.target, '/', 2);
  hosts        text[] := ARRAY[mesh_internal.service_host(service.target)];
  host         text;
BEGIN
  IF service.part = 'ServiceEntry' THEN
    hosts := ARRAY(SELECT s.target FROM mesh_internal.links s WHERE s.name = of_name AND s.namespace = of_namespace AND s.kind = 'ServiceEntry' AND s.role = 'service');
  END IF;
  FOREACH host IN ARRAY hosts LOOP
    RETURN QUERY SELECT v.* FROM mesh_internal.links v WHERE v.role = 'claim' AND v.target = host AND v.part = 'mesh' AND mesh_internal.has_http(v);
  END LOOP;
END $$;

-- has_http reports whether the VirtualService of a claim says something of requests. OFFSET 0 has Postgres
-- look it up, rather than join all resources.
CREATE OR REPLACE FUNCTION mesh_internal.has_http(claim mesh_internal.links) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT EXISTS (SELECT FROM mesh.resources r WHERE (r.name, r.namespace, r.kind, r.api_group) = (claim.name, claim.namespace, claim.kind, claim.api_group) AND r.spec ? 'http' OFFSET 0)
$$;

-- clients_of returns the namespaces whose sidecars a route is for: all, if it is beside its service.
CREATE OR REPLACE FUNCTION mesh_internal.clients_of(route mesh_internal.links) RETURNS text[]
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN route.namespace = split_part(route.target, '/', 1) THEN '{*}' ELSE ARRAY[route.namespace] END
$$;

CREATE OR REPLACE VIEW mesh_internal.conflicting_routes AS
  SELECT 'warning' AS severity, 'routed-twice' AS code, l.kind, l.api_group, l.namespace, l.name, l.path,
    format('requests to the host "%s" have another rule: %s %s/%s', l.target, o.kind, o.namespace, o.name) AS message,
    'each client follows one of the two, and docs/gateway-api.md says which: keep one' AS hint
  FROM mesh_internal.links l, LATERAL mesh_internal.routes_for(l.target) o
  WHERE l.role = 'claim' AND l.part = 'mesh' AND (SELECT EXISTS (SELECT FROM mesh_internal.links p WHERE p.role = 'parent' AND p.part IN ('Service', 'ServiceEntry'))) -- mostly there is none
    AND mesh_internal.overlap(l.scope, mesh_internal.clients_of(o)) AND mesh_internal.may_name(o.namespace, mesh_internal.clients_of(o)) AND mesh_internal.has_http(l)
  UNION ALL
  SELECT 'warning', 'routed-twice', l.kind, l.api_group, l.namespace, l.name, l.path,
    format('requests to the host "%s" have another rule: %s %s/%s', o.target, o.kind, o.namespace, o.name),
    'each client follows one of the two, and docs/gateway-api.md says which: keep one'
  FROM mesh_internal.links l, LATERAL mesh_internal.rules_for(l) o
  WHERE l.role = 'parent' AND l.part IN ('Service', 'ServiceEntry') AND l.kind IN ('HTTPRoute', 'GRPCRoute')
    AND mesh_internal.overlap(o.scope, mesh_internal.clients_of(l)) AND mesh_internal.may_name(o.namespace, o.scope);

COMMENT ON VIEW mesh_internal.conflicting_claims IS 'Internal. Read mesh.problems.';
COMMENT ON VIEW mesh_internal.conflicting_services IS 'Internal. Read mesh.problems.';
COMMENT ON VIEW mesh_internal.conflicting_addresses IS 'Internal. Read mesh.problems.';
COMMENT ON VIEW mesh_internal.conflicting_rules IS 'Internal. Read mesh.problems.';
COMMENT ON VIEW mesh_internal.conflicting_gateways IS 'Internal. Read mesh.problems.';
COMMENT ON VIEW mesh_internal.conflicting_defaults IS 'Internal. Read mesh.problems.';
COMMENT ON VIEW mesh_internal.conflicting_routes IS 'Internal. Read mesh.problems.';

DROP FUNCTION IF EXISTS mesh_internal.other_owner(mesh_internal.links); -- which the views asked before
