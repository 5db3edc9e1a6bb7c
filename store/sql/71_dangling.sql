-- What is wrong between resources, found from links alone, so that it can be asked before and
-- after a change of those rows. What names something may be of the mesh's own or of a registry, and
-- what is named, too. Each part of the view looks at the rows of one role; for
-- one resource, each is a few index lookups.

-- may_name reports whether a hint or message may name a resource to somebody: they may read it, or
-- it is for all.
CREATE OR REPLACE FUNCTION mesh_internal.may_name(namespace text, scope text[]) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT '*' = ANY (scope) OR (SELECT mesh_internal.shows_all()) OR namespace = ANY ((SELECT mesh_internal.shown_namespaces())::text[])
$$;

-- known_host_like returns the host that was probably meant: one with the same first name elsewhere,
-- or a similar one.
CREATE OR REPLACE FUNCTION mesh_internal.known_host_like(host text) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  first text := split_part(host, '.', 1);
  rest  text := substr(host, length(first) + 1);
  meant text;
BEGIN
  SELECT l.target INTO meant FROM mesh_internal.every_link l
    WHERE l.role = 'service' AND l.target >= first AND l.target < first || '/' AND l.target <> host AND split_part(l.target, '.', 1) = first AND mesh_internal.may_name(l.namespace, l.scope)
    ORDER BY l.target LIMIT 1;
  IF meant IS NULL THEN
    meant := mesh_internal.nearest(first, ARRAY(SELECT split_part(l.target, '.', 1) FROM mesh_internal.every_link l
      WHERE l.role = 'service' AND l.target >= left(first, 1) AND l.target < chr(ascii(first) + 1) AND substr(l.target, length(split_part(l.target, '.', 1)) + 1) = rest AND mesh_internal.may_name(l.namespace, l.scope)
      ORDER BY l.target LIMIT 50)) || rest;
  END IF;
  RETURN meant;
END $$;

-- host_hint suggests what to do about a host that has no ServiceEntry for a namespace.
CREATE OR REPLACE FUNCTION mesh_internal.host_hint(host text, namespace text) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  hidden record;
  near   text;
BEGIN
  SELECT l.namespace, l.name, l.registry INTO hidden FROM mesh_internal.every_link l WHERE l.role = 'service' AND l.target = host AND NOT l.hidden AND mesh_internal.may_name(l.namespace, l.scope) LIMIT 1;
  IF FOUND THEN
    RETURN format('add "%s" to exportTo of ServiceEntry %s/%s, which has it%s', host_hint.namespace, hidden.namespace, hidden.name, ' from the registry ' || hidden.registry);
  END IF;
  SELECT l.target INTO near FROM mesh_internal.every_link l
    WHERE l.role = 'service' AND l.target LIKE '*%' AND mesh_internal.is_within(host, l.target) AND mesh_internal.may_name(l.namespace, l.scope) ORDER BY length(l.target) DESC LIMIT 1;
  IF FOUND THEN
    RETURN format('"%s" lets applications ask for it, but a route needs a ServiceEntry with this host: create one', near);
  END IF;
  near := mesh_internal.known_host_like(host);
  RETURN CASE WHEN near IS NOT NULL THEN format('did you mean "%s"?', near) ELSE 'create a ServiceEntry with this host' END;
END $$;

-- subset_hint suggests what to do about a subset that clients in a namespace do not find.
CREATE OR REPLACE FUNCTION mesh_internal.subset_hint(host text, subset text, namespace text) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  elsewhere record;
  known     text[];
BEGIN
  SELECT l.namespace, l.name INTO elsewhere FROM mesh_internal.every_link l WHERE l.role = 'rule' AND l.target = host AND l.part = subset AND mesh_internal.may_name(l.namespace, l.scope) LIMIT 1;
  IF FOUND THEN
    RETURN format('DestinationRule %s/%s declares it, but clients in namespace "%s" do not obey that one: declare it in their namespace or in that of the ServiceEntry, and see its exportTo',
      elsewhere.namespace, elsewhere.name, subset_hint.namespace);
  END IF;
  known := ARRAY(SELECT DISTINCT l.part FROM mesh_internal.every_link l WHERE l.role = 'rule' AND l.target = host AND l.part <> '' AND mesh_internal.may_name(l.namespace, l.scope) ORDER BY 1);
  RETURN CASE known WHEN '{}' THEN 'add it to a DestinationRule for this host' ELSE mesh_internal.hint(subset, known, 'its subsets: ') END;
END $$;

-- key_hint returns the resource that was probably meant: one of the same name in another namespace,
-- or a similar one.
CREATE OR REPLACE FUNCTION mesh_internal.key_hint(kind text, key text, otherwise text) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  near text;
BEGIN
  SELECT l.target INTO near FROM mesh_internal.every_link l
    WHERE l.name = split_part(key, '/', 2) AND l.kind = key_hint.kind AND l.role = 'is' AND mesh_internal.may_name(l.namespace, NULL) ORDER BY l.target LIMIT 1;
  IF near IS NULL THEN
    near := split_part(key, '/', 1) || '/' || mesh_internal.nearest(split_part(key, '/', 2), ARRAY(SELECT l.name FROM mesh_internal.every_link l
      WHERE l.role = 'is' AND l.part = key_hint.kind AND l.target >= split_part(key, '/', 1) || '/' AND l.target < split_part(key, '/', 1) || '0' AND mesh_internal.may_name(l.namespace, NULL)
      ORDER BY l.target LIMIT 50));
  END IF;
  RETURN CASE WHEN near IS NOT NULL THEN format('did you mean "%s"?', near) ELSE otherwise END;
END $$;

-- hint_for searches for what a problem is the lack of. Views of problems only say what they would have
-- searched for, in a column of that name, so that whoever reads many problems of one cause searches once.
CREATE OR REPLACE FUNCTION mesh_internal.hint_for(sought text[]) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN CASE sought[1]
    WHEN 'host' THEN mesh_internal.host_hint(sought[2], sought[3])
    WHEN 'subset' THEN mesh_internal.subset_hint(sought[2], sought[3], sought[4])
    WHEN 'key' THEN mesh_internal.key_hint(sought[2], sought[3], sought[4]) END;
END $$;

-- Proxies have no cluster for a host that only a wildcard covers: requests sent to it fail. A
-- namespace may name its own services, whomever they are exported to. Here and below, registries are
-- asked about coalesce(s.target, l.target), which is l.target: so Postgres asks after the join, for
-- what the mesh itself does not have.
CREATE OR REPLACE VIEW mesh_internal.dangling_hosts AS
  SELECT CASE l.role WHEN 'rule' THEN 'warning' ELSE 'error' END AS severity, 'unknown-host' AS code, l.kind, l.api_group, l.namespace, l.name,
    l.path || CASE l.role WHEN 'route' THEN '.host' WHEN 'backend' THEN '.name' ELSE '' END AS path,
    format('no ServiceEntry that namespace "%s" can see has the host "%s"', l.namespace, l.target) AS message,
    NULL COLLATE "C" AS hint, ARRAY['host', l.target, l.namespace] COLLATE "default" AS sought
  FROM mesh_internal.every_link l
    LEFT JOIN mesh_internal.links s ON s.role = 'service' AND s.target = l.target
      AND (s.namespace = ANY (l.scope) OR s.scope && CASE l.role WHEN 'rule' THEN l.scope || ARRAY['*', l.namespace] ELSE l.scope END)
  WHERE (l.role = 'route' OR l.role = 'backend' AND l.part IN ('Service', 'Hostname') OR l.role = 'rule' AND l.part = '' AND l.target NOT LIKE '*%')
    AND s.target IS NULL AND NOT l.hidden
    AND (NOT (SELECT EXISTS (SELECT FROM mesh_internal.registries))
      OR NOT mesh_internal.registries_have(coalesce(s.target, l.target), l.scope, CASE l.role WHEN 'rule' THEN l.scope || ARRAY['*', l.namespace] ELSE l.scope END));

-- known_ports lists the ports of a host, for a hint.
CREATE OR REPLACE FUNCTION mesh_internal.known_ports(host text, of_registries text[]) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN (SELECT string_agg(DISTINCT p, ', ') FROM (
    SELECT jsonb_object_keys(s.detail -> 'ports') FROM mesh_internal.links s WHERE s.role = 'service' AND s.target = known_ports.host
    UNION ALL SELECT unnest(of_registries)) AS ports (p));
END $$;

-- Where several entries make one host, each may have some of its ports.
CREATE OR REPLACE VIEW mesh_internal.dangling_ports AS
  SELECT 'error' AS severity, 'unknown-port' AS code, l.kind, l.api_group, l.namespace, l.name,
    l.path || CASE l.role WHEN 'route' THEN '.port.number' ELSE '.port' END AS path,
    format('the host "%s" has no port %s', l.target, l.port) AS message,
    'its ports: ' || mesh_internal.known_ports(l.target COLLATE "default", r.ports) AS hint
  FROM mesh_internal.every_link l
    LEFT JOIN mesh_internal.links s ON s.role = 'service' AND s.target = l.target AND (s.scope && l.scope OR s.namespace = ANY (l.scope))
      AND (s.detail -> 'ports' = '{}' OR s.detail -> 'ports' ? l.port::text),
    LATERAL (SELECT CASE WHEN (SELECT EXISTS (SELECT FROM mesh_internal.registries)) THEN mesh_internal.registry_ports(coalesce(s.target, l.target), l.scope) END AS ports OFFSET 0) r
  WHERE (l.role = 'route' OR l.role = 'backend' AND l.part IN ('Service', 'Hostname')) AND l.port IS NOT NULL
    AND s.target IS NULL AND NOT l.hidden
    AND (r.ports IS NOT NULL OR EXISTS (SELECT FROM mesh_internal.links o
      WHERE o.role = 'service' AND o.target = l.target AND (o.scope && l.scope OR o.namespace = ANY (l.scope)) AND o.detail -> 'ports' <> '{}'))
    AND (r.ports && ARRAY[l.port::text, '*']) IS NOT TRUE;

-- Only a destination of a VirtualService may leave out its port, where the host has one.
CREATE OR REPLACE VIEW mesh_internal.ambiguous_ports AS
  SELECT 'error' AS severity, 'ambiguous-port' AS code, l.kind, l.api_group, l.namespace, l.name, l.path,
    format('the host "%s" has several ports, and the destination names none', l.target) AS message,
    'set port.number to one of ' || mesh_internal.known_ports(l.target COLLATE "default", NULL) AS hint
  FROM mesh_internal.every_link l
  WHERE l.role = 'route' AND l.port IS NULL AND NOT l.hidden
    AND EXISTS (SELECT FROM mesh_internal.links s
      WHERE s.role = 'service' AND s.target = l.target AND (s.scope && l.scope OR s.namespace = ANY (l.scope)) AND (SELECT count(*) FROM jsonb_object_keys(s.detail -> 'ports')) > 1)
  UNION ALL
  SELECT 'error', 'ambiguous-port', l.kind, l.api_group, l.namespace, l.name, l.path,
    format('the host "%s" has several ports, and the destination names none', l.target),
    'set port.number to one of ' || array_to_string(r.ports COLLATE "default", ', ')
  FROM mesh_internal.every_link l
    LEFT JOIN mesh_internal.links s ON s.role = 'service' AND s.target = l.target AND (s.scope && l.scope OR s.namespace = ANY (l.scope)),
    LATERAL (SELECT CASE WHEN (SELECT EXISTS (SELECT FROM mesh_internal.registries)) THEN mesh_internal.registry_ports(coalesce(s.target, l.target), l.scope) END AS ports OFFSET 0) r
  WHERE l.role = 'route' AND l.port IS NULL AND s.target IS NULL AND NOT l.hidden AND cardinality(r.ports) > 1;

-- Clients obey the rules of their own namespace, of the service's and of the root namespace.
CREATE OR REPLACE VIEW mesh_internal.dangling_subsets AS
  SELECT 'error' AS severity, 'unknown-subset' AS code, l.kind, l.api_group, l.namespace, l.name,
    l.path || '.subset' AS path,
    format('no DestinationRule declares subset "%s" of the host "%s" for namespace "%s"', l.part, l.target, l.namespace) AS message,
    NULL COLLATE "C" AS hint, ARRAY['subset', l.target, l.part, l.namespace] COLLATE "default" AS sought
  FROM mesh_internal.every_link l
  WHERE l.role = 'route' AND l.part <> '' AND NOT l.hidden
    AND NOT EXISTS (SELECT FROM mesh_internal.every_link d
      WHERE d.role = 'rule' AND d.target = l.target AND d.part = l.part AND d.scope && l.scope AND NOT d.hidden
        AND (d.namespace = ANY (l.scope) OR d.namespace = (SELECT mesh_internal.root_namespace())
          OR EXISTS (SELECT FROM mesh_internal.links s WHERE s.role = 'service' AND s.target = l.target AND s.namespace = d.namespace)
          OR (SELECT EXISTS (SELECT FROM mesh_internal.registries)) AND mesh_internal.registries_have(l.target, ARRAY[d.namespace], '{}')))
    AND NOT EXISTS (SELECT FROM mesh_internal.every_link d
      WHERE d.role = 'rule' AND d.target LIKE '*%' AND mesh_internal.is_within(l.target, d.target) AND d.part = l.part AND d.scope && l.scope AND NOT d.hidden
        AND (d.namespace = ANY (l.scope) OR d.namespace = (SELECT mesh_internal.root_namespace())
          OR EXISTS (SELECT FROM mesh_internal.links s WHERE s.role = 'service' AND s.target = l.target AND s.namespace = d.namespace)
          OR (SELECT EXISTS (SELECT FROM mesh_internal.registries)) AND mesh_internal.registries_have(l.target, ARRAY[d.namespace], '{}')));

CREATE OR REPLACE VIEW mesh_internal.dangling_gateways AS
  SELECT 'error' AS severity, 'unknown-gateway' AS code, l.kind, l.api_group, l.namespace, l.name, l.path,
    format('there is no Gateway %s', l.target) AS message,
    NULL COLLATE "C" AS hint, ARRAY['key', 'Gateway', l.target, 'create it, or correct the name; "mesh" stands for all sidecars'] COLLATE "default" AS sought
  FROM mesh_internal.every_link l
  WHERE l.role IN ('gateway', 'match') AND NOT l.hidden
    AND NOT EXISTS (SELECT FROM mesh_internal.every_link g WHERE g.role = 'is' AND g.target = l.target AND g.part = 'Gateway' AND g.api_group = 'networking.istio.io')
  UNION ALL
  SELECT 'warning', 'host-not-in-gateway', l.kind, l.api_group, l.namespace, l.name, l.path,
    format('Gateway %s serves none of the hosts', l.target), 'add one of the hosts to a server of the Gateway', NULL
  FROM mesh_internal.every_link l
  WHERE l.role = 'gateway' AND NOT l.hidden
    AND EXISTS (SELECT FROM mesh_internal.every_link g WHERE g.role = 'is' AND g.target = l.target AND g.part = 'Gateway' AND g.api_group = 'networking.istio.io')
    AND NOT EXISTS (SELECT FROM mesh_internal.every_link c, mesh_internal.every_link s
      WHERE c.kind = l.kind AND c.namespace = l.namespace AND c.name = l.name AND c.role = 'claim' AND c.part = l.target AND NOT c.hidden
        AND s.kind = 'Gateway' AND s.namespace = split_part(l.target, '/', 1) AND s.name = split_part(l.target, '/', 2) AND s.role = 'server' AND NOT s.hidden
        AND s.scope && ARRAY['*', l.namespace] AND (s.target = c.target OR mesh_internal.is_within(c.target, s.target) OR mesh_internal.is_within(s.target, c.target)))
    AND EXISTS (SELECT FROM mesh_internal.every_link c WHERE c.kind = l.kind AND c.namespace = l.namespace AND c.name = l.name AND c.role = 'claim' AND NOT c.hidden)
  UNION ALL
  SELECT 'error', 'unknown-delegate', l.kind, l.api_group, l.namespace, l.name, l.path,
    format('there is no VirtualService %s without hosts that namespace "%s" can see', l.target, l.namespace), NULL,
    ARRAY['key', 'VirtualService', l.target, 'create it, or correct the name'] COLLATE "default"
  FROM mesh_internal.every_link l
  WHERE l.role = 'delegate' AND NOT l.hidden
    AND NOT EXISTS (SELECT FROM mesh_internal.every_link d WHERE d.role = 'is' AND d.target = l.target AND d.part = 'VirtualService' AND NOT d.hidden AND d.scope && ARRAY['*', l.namespace]);

COMMENT ON VIEW mesh_internal.dangling_hosts IS 'Internal. Read mesh.problems.';
COMMENT ON VIEW mesh_internal.dangling_ports IS 'Internal. Read mesh.problems.';
COMMENT ON VIEW mesh_internal.ambiguous_ports IS 'Internal. Read mesh.problems.';
COMMENT ON VIEW mesh_internal.dangling_subsets IS 'Internal. Read mesh.problems.';
COMMENT ON VIEW mesh_internal.dangling_gateways IS 'Internal. Read mesh.problems.';
