-- The rules that no predicate can express. The programs have them by the same names.

-- test_rule calls them by name. Paths start at the object.
CREATE OR REPLACE FUNCTION mesh_internal.test_rule(test text, v jsonb, meta jsonb) RETURNS SETOF mesh_internal.problem
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  CASE test
  WHEN 'budget-interval' THEN
    RETURN QUERY SELECT * FROM mesh_internal.test_budget_interval(v);
  WHEN 'condition-addresses' THEN
    RETURN QUERY SELECT * FROM mesh_internal.test_condition_addresses(v);
  WHEN 'match-count' THEN
    RETURN QUERY SELECT * FROM mesh_internal.test_match_count(v);
  WHEN 'rate-interval' THEN
    RETURN QUERY SELECT * FROM mesh_internal.test_rate_interval(v);
  WHEN 'timeouts' THEN
    RETURN QUERY SELECT * FROM mesh_internal.test_timeouts(v);
  WHEN 'port-numbers' THEN
    RETURN QUERY SELECT * FROM mesh_internal.test_port_numbers(v);
  WHEN 'overlapping-hosts' THEN
    RETURN QUERY SELECT * FROM mesh_internal.test_overlapping_hosts(v);
  WHEN 'sni-hosts' THEN
    RETURN QUERY SELECT * FROM mesh_internal.test_sni_hosts(v);
  WHEN 'own-config-maps' THEN
    RETURN QUERY SELECT * FROM mesh_internal.test_own_config_maps(v, meta);
  WHEN 'prime-table-size' THEN
    RETURN QUERY SELECT * FROM mesh_internal.test_prime_table_size(v);
  WHEN 'localities' THEN
    RETURN QUERY SELECT * FROM mesh_internal.test_localities(v);
  END CASE;
END $$;

-- host_covers reports whether a host, perhaps with a wildcard in front, means everything that
-- another means.
CREATE OR REPLACE FUNCTION mesh_internal.host_covers(wide text, narrow text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN left(wide, 1) <> '*' THEN wide = narrow
    ELSE right(narrow, length(wide) - 1) = substr(wide, 2) AND (length(narrow) >= length(wide) OR left(narrow, 1) <> '*') END
$$;

-- test_overlapping_hosts returns the hosts of a virtual service that an earlier one covers, or that
-- cover an earlier one.
CREATE OR REPLACE FUNCTION mesh_internal.test_overlapping_hosts(v jsonb) RETURNS SETOF mesh_internal.problem
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT format('hosts[%s]', h.i - 1), format('"%s" overlaps with "%s"', h.host, before.host), 'leave out one of them'
  FROM jsonb_array_elements_text(v -> 'hosts') WITH ORDINALITY AS h (host, i),
    LATERAL (
      SELECT b.host FROM jsonb_array_elements_text(v -> 'hosts') WITH ORDINALITY AS b (host, i)
      WHERE b.i < h.i AND (mesh_internal.host_covers(b.host, h.host) OR mesh_internal.host_covers(h.host, b.host))
      ORDER BY b.i LIMIT 1) before
  ORDER BY h.i
$$;

-- test_port_numbers returns the ports of a service entry whose number another one has before it. UDP
-- has numbers of its own.
CREATE OR REPLACE FUNCTION mesh_internal.test_port_numbers(v jsonb) RETURNS SETOF mesh_internal.problem
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT format('ports[%s].number', i - 1), format('port %s is already defined', number), ''
  FROM (
    SELECT i, port ->> 'number' AS number, row_number() OVER (
      PARTITION BY port ->> 'number', upper(CASE jsonb_typeof(port -> 'protocol') WHEN 'string' THEN port ->> 'protocol' ELSE '' END) = 'UDP' ORDER BY i) AS nth
    FROM jsonb_array_elements(CASE jsonb_typeof(v -> 'ports') WHEN 'array' THEN v -> 'ports' ELSE '[]' END) WITH ORDINALITY AS p (port, i)
    WHERE jsonb_typeof(port) = 'object' AND jsonb_typeof(port -> 'number') IN ('string', 'number', 'boolean')) p
  WHERE nth > 1
  ORDER BY i
$$;

-- test_sni_hosts returns the server names in matches that are not among the hosts of the virtual
-- service.
CREATE OR REPLACE FUNCTION mesh_internal.test_sni_hosts(v jsonb) RETURNS SETOF mesh_internal.problem
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT i.item_path, format('"%s" is none of the hosts', name), 'add it to spec.hosts, or write one that is there'
  FROM mesh_internal.rule_items('[{"field": "tls", "shape": "list"}, {"field": "match", "shape": "list"}, {"field": "sniHosts", "shape": "list"}]', '', v)
      WITH ORDINALITY AS i (item_path, item, item_parent, item_key, item_i, n),
    LATERAL (SELECT i.item #>> '{}' AS name) s
  WHERE NOT mesh_internal.is_ip(name)
    AND NOT EXISTS (SELECT FROM jsonb_array_elements_text(CASE jsonb_typeof(v -> 'hosts') WHEN 'array' THEN v -> 'hosts' ELSE '[]' END) host WHERE mesh_internal.host_covers(host, name))
  ORDER BY i.n
$$;

-- test_own_config_maps returns certificates that a destination rule takes from a ConfigMap in
-- another namespace.
CREATE OR REPLACE FUNCTION mesh_internal.test_own_config_maps(v jsonb, meta jsonb) RETURNS SETOF mesh_internal.problem
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT i.item_path || '.credentialName', 'must name a ConfigMap of the own namespace', format('write it as configmap://%s/name', meta ->> 'namespace')
  FROM (VALUES
      (1, '[{"field": "trafficPolicy", "shape": "single"}, {"field": "tls", "shape": "single"}]'::jsonb),
      (2, '[{"field": "trafficPolicy", "shape": "single"}, {"field": "portLevelSettings", "shape": "list"}, {"field": "tls", "shape": "single"}]'),
      (3, '[{"field": "subsets", "shape": "list"}, {"field": "trafficPolicy", "shape": "single"}, {"field": "tls", "shape": "single"}]'),
      (4, '[{"field": "subsets", "shape": "list"}, {"field": "trafficPolicy", "shape": "single"}, {"field": "portLevelSettings", "shape": "list"}, {"field": "tls", "shape": "single"}]')
    ) AS way (place, steps),
    mesh_internal.rule_items(way.steps, '', v) WITH ORDINALITY AS i (item_path, item, item_parent, item_key, item_i, n),
    LATERAL (SELECT i.item ->> 'credentialName' AS name) c
  WHERE meta ? 'namespace' AND name LIKE 'configmap://%' AND NOT starts_with(name, format('configmap://%s/', meta ->> 'namespace'))
  ORDER BY place, i.n
$$;

-- test_prime_table_size follows Envoy, for which 1 is a prime number.
CREATE OR REPLACE FUNCTION mesh_internal.test_prime_table_size(v jsonb) RETURNS SETOF mesh_internal.problem
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT 'tableSize', 'must be a prime number, got ' || size, 'such as 65537'
  FROM (SELECT trunc((v ->> 'tableSize')::numeric) AS size WHERE jsonb_typeof(v -> 'tableSize') = 'number') s
  WHERE size < 5000011 AND EXISTS (SELECT FROM generate_series(2, sqrt(size)::int) factor WHERE factor * factor <= size AND size % factor = 0)
$$;

CREATE OR REPLACE FUNCTION mesh_internal.is_locality(name text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
  SELECT name <> '' AND name !~ '^/|^[^/]*/(/|$)|^[^/]*/[^/]*/$' AND name !~ '[*].'
$$;

-- locality_covers reports whether a listed locality leaves no room for another after it.
CREATE OR REPLACE FUNCTION mesh_internal.locality_covers(listed text, next text) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT a[1] = '*' OR a[1] = b[1] AND (b[2] = '' OR a[2] IN ('', '*') OR a[2] = b[2] AND (b[3] = '' OR a[3] IN ('', '*') OR a[3] = b[3]))
  FROM (SELECT
    ARRAY[split_part(listed, '/', 1), split_part(listed, '/', 2), substr(listed, length(split_part(listed, '/', 1) || split_part(listed, '/', 2)) + 3)] AS a,
    ARRAY[split_part(next, '/', 1), split_part(next, '/', 2), substr(next, length(split_part(next, '/', 1) || split_part(next, '/', 2)) + 3)] AS b) parts
$$;

-- localities_apart requires that no locality is part of an earlier one.
CREATE OR REPLACE FUNCTION mesh_internal.localities_apart(names text[], paths text[]) RETURNS SETOF mesh_internal.problem
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT paths[i], reason, hint
  FROM unnest(names) WITH ORDINALITY AS l (name, i),
    LATERAL (
      SELECT format('"%s" is not a locality', l.name) AS reason, 'write it as region/zone/subzone, of which the last may be "*"' AS hint
        WHERE NOT mesh_internal.is_locality(l.name)
      UNION ALL
      (SELECT format('"%s" overlaps with "%s"', l.name, before.name), 'leave out one of them'
        FROM unnest(names) WITH ORDINALITY AS before (name, j)
        WHERE mesh_internal.is_locality(l.name) AND before.j < l.i AND mesh_internal.is_locality(before.name) AND mesh_internal.locality_covers(before.name, l.name)
        ORDER BY before.j LIMIT 1)) wrong
  ORDER BY i
$$;

-- test_localities returns what is wrong with how a load balancer distributes requests: places that
-- do not exist or overlap, and shares that do not add up.
CREATE OR REPLACE FUNCTION mesh_internal.test_localities(v jsonb) RETURNS SETOF mesh_internal.problem
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  part  record;
  names text[];
  total numeric;
BEGIN
  FOR part IN
    SELECT format('distribute[%s].to', i - 1) AS at, coalesce(item -> 'to', '{}') AS shares
    FROM jsonb_array_elements(v -> 'distribute') WITH ORDINALITY AS d (item, i) ORDER BY i
  LOOP
    SELECT coalesce(array_agg(key ORDER BY key COLLATE "C"), '{}'), coalesce(sum(CASE jsonb_typeof(value) WHEN 'number' THEN value::numeric END), 0) INTO names, total FROM jsonb_each(part.shares);
    RETURN QUERY SELECT part.at, format('the weights add up to %s, not to 100', total), NULL WHERE total <> 100;
    RETURN QUERY SELECT * FROM mesh_internal.localities_apart(names, ARRAY(SELECT mesh_internal.member_path(part.at, name) FROM unnest(names) name));
  END LOOP;
  RETURN QUERY SELECT p.* FROM (
      SELECT array_agg(coalesce(item ->> 'from', '') ORDER BY i) AS origins, array_agg(format('distribute[%s].from', i - 1) ORDER BY i) AS paths
      FROM jsonb_array_elements(v -> 'distribute') WITH ORDINALITY AS d (item, i)) o,
    mesh_internal.localities_apart(o.origins, o.paths) p;
END $$;
