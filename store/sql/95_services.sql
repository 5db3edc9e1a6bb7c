-- Everything callable in the mesh, wherever it is kept: what is the mesh's own, and what registries
-- have (94_registries.sql).

-- known_registries has the registries that some server reads or has read within an hour. What nobody
-- mirrors is stale at least since that was noticed.
CREATE OR REPLACE VIEW mesh_internal.known_registries AS
  SELECT r.name, r.rank, r.server, CASE WHEN NOT l.here THEN 'left' WHEN r.stale IS NOT NULL THEN 'stale' WHEN NOT r.whole THEN 'unread' ELSE 'current' END AS state,
    CASE WHEN NOT l.here THEN coalesce(r.stale, r.ended, now()) WHEN r.whole THEN r.stale ELSE coalesce(r.stale, r.since) END AS stale_since,
    CASE WHEN l.here THEN r.reason ELSE 'no server tells of it any more' END AS reason, r.bad, r.bad_all
  FROM mesh_internal.registries r, LATERAL (SELECT coalesce(r.keeper = ANY ((SELECT mesh_internal.live_keepers())::int[]), false) AS here OFFSET 0) l
  WHERE r.ended IS NULL OR r.ended > now() - interval '1 hour';

COMMENT ON VIEW mesh_internal.known_registries IS 'Internal. Read mesh.registries.';

-- hider_of says what has a resource of the kind and name of a registry's, and counts before that: ''
-- for the mesh itself, or an earlier registry; NULL if nothing has. Of namespaces that the acting role
-- may not be told of, it says that the mesh has everything.
CREATE OR REPLACE FUNCTION mesh_internal.hider_of(e mesh_internal.registry_entries) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER COST 1 SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NOT (mesh_internal.shows_all() OR e.namespace = ANY (mesh_internal.shown_namespaces())) THEN
    RETURN '';
  END IF;
  RETURN mesh_internal.outranker_of(e.kind, e.api_group, e.namespace, e.name, e.registry);
END $$;

-- whole_number returns a number, which may be written as text; NULL if it is none.
CREATE OR REPLACE FUNCTION mesh_internal.whole_number(value jsonb) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN value #>> '{}' ~ '^[0-9]{1,15}(\.[0-9]{1,15})?$' THEN nullif((value #>> '{}')::numeric::bigint, 0) END
$$;

-- enum_word returns the name of an enum's value, which may be written as its number, or not at all.
CREATE OR REPLACE FUNCTION mesh_internal.enum_word(value jsonb, names text[]) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE jsonb_typeof(value) WHEN 'number' THEN names[coalesce(mesh_internal.whole_number(value), 0) + 1] WHEN 'string' THEN value #>> '{}' ELSE names[1] END
$$;

-- health_word returns how a workload is by what its label or annotation says. Others than these
-- words say nothing, as for discoveries.
CREATE OR REPLACE FUNCTION mesh_internal.health_word(said text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN trim(split_part(said, ':', 1)) IN ('unhealthy', 'unknown', 'draining') THEN trim(split_part(said, ':', 1)) ELSE 'healthy' END
$$;

-- service_ports lists the ports of a ServiceEntry with all that they say.
CREATE OR REPLACE FUNCTION mesh_internal.service_ports(spec jsonb) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(jsonb_agg(jsonb_build_object('name', coalesce(p ->> 'name', ''), 'number', mesh_internal.whole_number(p -> 'number'), 'protocol', upper(p ->> 'protocol'),
    'target', coalesce(mesh_internal.whole_number(mesh_internal.field_of(p, '{targetPort}', 'target_port')), mesh_internal.whole_number(p -> 'number'))) ORDER BY i), '[]')
  FROM jsonb_path_query(spec -> 'ports', '$[*]') WITH ORDINALITY AS u (p, i)
$$;

-- endpoint_ports says on which port an endpoint serves each port of its service.
CREATE OR REPLACE FUNCTION mesh_internal.endpoint_ports(service jsonb, endpoint jsonb) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(jsonb_object_agg(p ->> 'name', coalesce(mesh_internal.whole_number(endpoint #> ARRAY['ports', p ->> 'name']), (p ->> 'target')::bigint)), '{}')
  FROM jsonb_array_elements(service) p
$$;

-- annotated_selector returns the labels by which a ServiceEntry that lists endpoints selects workloads
-- beside them, as kinds.AnnotatedSelector does; NULL if it selects none.
CREATE OR REPLACE FUNCTION mesh_internal.annotated_selector(annotations jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE WHEN annotations ->> 'mesh.pgmesh.io/workload-selector' ~ '^[^=,]+=[^,]*(,[^=,]+=[^,]*)*$' THEN
    (SELECT jsonb_object_agg(split_part(p, '=', 1), substr(p, strpos(p, '=') + 1)) FROM unnest(string_to_array(annotations ->> 'mesh.pgmesh.io/workload-selector', ',')) p) END
$$;

-- selector_of returns the labels by which a ServiceEntry selects workloads; NULL if it selects none.
CREATE OR REPLACE FUNCTION mesh_internal.selector_of(spec jsonb, annotations jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$
  SELECT coalesce(mesh_internal.field_of(spec, '{workloadSelector}', 'workload_selector') -> 'labels', mesh_internal.annotated_selector(annotations))
$$;

-- The hosts of these views had another collation than the index by which they are found now.
DO $$
BEGIN
  IF EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = to_regclass('mesh.services') AND a.attname = 'host' AND a.attcollation <> 'pg_catalog."C"'::regcollation) THEN
    DROP VIEW mesh.services, mesh.endpoints, mesh_internal.claimed_hosts, mesh_internal.callable;
  END IF;
END $$;

-- hosts_of_services has each host of each ServiceEntry. It goes by their links, which an index finds
-- by the host. Those of what the running transaction has changed are made when it commits, so that is
-- read. (61_parts.sql says why the positions have a range.) OFFSET 0 has Postgres look up each entry
-- by its key: it may have no statistics yet.
CREATE OR REPLACE VIEW mesh_internal.hosts_of_services AS
  SELECT l.target AS host, r.namespace, r.name, NULL::text AS origin, 0 AS rank, NULL::timestamptz AS stale_since, r.spec, r.labels, r.annotations
  FROM mesh_internal.links l, LATERAL (
    SELECT r.namespace, r.name, r.spec, r.labels, r.annotations, r.xid FROM mesh.resources r WHERE r.kind = l.kind AND r.api_group = l.api_group AND r.namespace = l.namespace AND r.name = l.name OFFSET 0) r
  WHERE l.role = 'service' AND (r.xid = (SELECT pg_current_xact_id_if_assigned())) IS NOT TRUE
  UNION ALL
  SELECT lower(h.value #>> '{}') COLLATE "C", r.namespace, r.name, NULL, 0, NULL, r.spec, r.labels, r.annotations
  FROM mesh.resources r
    JOIN LATERAL jsonb_array_elements(CASE jsonb_typeof(r.spec -> 'hosts') WHEN 'array' THEN r.spec -> 'hosts' END) WITH ORDINALITY h (value, i) ON h.i BETWEEN 1 AND 1000000000
  WHERE (SELECT pg_current_xact_id_if_assigned() IS NOT NULL) AND r.xid = (SELECT pg_current_xact_id_if_assigned())
    AND r.kind = 'ServiceEntry' AND r.api_group = 'networking.istio.io'
  UNION ALL
  SELECT l.target, e.namespace, e.name, k.name, k.rank, k.stale_since, e.spec, e.labels, e.annotations
  FROM mesh_internal.registry_links l JOIN mesh_internal.known_registries k ON k.name = l.registry, LATERAL (
    SELECT e.*, mesh_internal.hider_of(e) AS hider FROM mesh_internal.registry_entries e
    WHERE e.name = l.name AND e.namespace = l.namespace AND e.kind = l.kind AND e.api_group = l.api_group AND e.registry = l.registry OFFSET 0) e
  WHERE l.role = 'service' AND e.hider IS NULL;

COMMENT ON VIEW mesh_internal.hosts_of_services IS 'Internal. Read mesh.services.';

-- claimed_hosts has those that the acting role may be told of. In a namespace a host is that of the
-- first of its origins, and of the other registries of its set.
CREATE OR REPLACE VIEW mesh_internal.claimed_hosts WITH (security_barrier) AS
  SELECT s.*, mesh_internal.enum_word(s.spec -> 'resolution', '{NONE,STATIC,DNS,DNS_ROUND_ROBIN,DYNAMIC_DNS}') AS resolution,
    mesh_internal.enum_word(s.spec -> 'location', '{MESH_EXTERNAL,MESH_INTERNAL}') AS location, mesh_internal.selector_of(s.spec, s.annotations) AS selector,
    s.rank = min(s.rank) OVER w OR coalesce(s.annotations ->> 'pgmesh.io/origin-set' = first_value(s.annotations ->> 'pgmesh.io/origin-set') OVER w, false) AS in_effect
  FROM mesh_internal.hosts_of_services s
  WHERE (SELECT mesh_internal.shows_all()) OR s.namespace = ANY ((SELECT mesh_internal.shown_namespaces())::text[])
  WINDOW w AS (PARTITION BY s.namespace, s.host ORDER BY s.rank RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING);

COMMENT ON VIEW mesh_internal.claimed_hosts IS 'Internal. Read mesh.services.';

-- backends_of returns what serves a host of a ServiceEntry: the endpoints that it lists, and the
-- workloads that it selects. If it has neither and proxies resolve names, the host itself serves. It
-- is for those who may be told of the namespace.
CREATE OR REPLACE FUNCTION mesh_internal.backends_of(host text, namespace text, spec jsonb, selector jsonb, resolved boolean)
RETURNS TABLE (workload text, endpoint jsonb, labels jsonb, health text)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 2 SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY SELECT NULL::text, e, mesh_internal.holder_of(e -> 'labels') - 'mesh.pgmesh.io/health', mesh_internal.health_word(e #>> '{labels,mesh.pgmesh.io/health}')
    FROM jsonb_path_query($3 -> 'endpoints', '$[*]') e;
  IF NOT FOUND AND $4 IS NULL AND $5 THEN
    RETURN QUERY SELECT NULL::text, jsonb_build_object('address', $1), '{}'::jsonb, 'healthy';
  END IF;
  IF $4 <> '{}' AND (mesh_internal.shows_all() OR $2 = ANY (mesh_internal.shown_namespaces())) THEN
    RETURN QUERY SELECT w.name, w.spec, mesh_internal.holder_of(w.spec -> 'labels') || w.labels, mesh_internal.health_word(w.annotations ->> 'mesh.pgmesh.io/health')
      FROM (
        SELECT r.name, r.labels, r.annotations, r.spec FROM mesh.resources r WHERE r.kind = 'WorkloadEntry' AND r.api_group = 'networking.istio.io' AND r.namespace = $2
        UNION ALL
        SELECT e.name, e.labels, e.annotations, e.spec FROM mesh_internal.registry_entries e JOIN mesh_internal.registries g ON g.name = e.registry
        WHERE e.kind = 'WorkloadEntry' AND e.api_group = 'networking.istio.io' AND e.namespace = $2 AND (g.ended IS NULL OR g.ended > now() - interval '1 hour')
          AND mesh_internal.hider_of(e) IS NULL) w
      WHERE CASE WHEN mesh_internal.selects_by_place($4) THEN mesh_internal.with_place(mesh_internal.holder_of(w.spec -> 'labels') || w.labels, w.spec ->> 'locality', w.spec ->> 'network')
          ELSE mesh_internal.holder_of(w.spec -> 'labels') || w.labels END @> $4
        AND ($5 OR w.spec ->> 'address' ~ '^([0-9a-fA-F:.]+$|unix://)');
  END IF;
END $$;

CREATE OR REPLACE VIEW mesh.services WITH (security_barrier) AS
  SELECT s.host, s.namespace, s.name, s.origin, s.annotations ->> 'pgmesh.io/origin-entry' AS entry, s.in_effect,
    mesh_internal.service_ports(s.spec) AS ports, s.location, s.resolution,
    ARRAY(SELECT a #>> '{}' FROM jsonb_path_query(s.spec -> 'addresses', '$[*]') a) AS addresses, s.labels,
    n.endpoints, n.healthy, s.stale_since
  FROM mesh_internal.claimed_hosts s, LATERAL (
    SELECT count(*) AS endpoints, count(*) FILTER (WHERE b.health = 'healthy') AS healthy
    FROM mesh_internal.backends_of(s.host, s.namespace, s.spec, s.selector, s.resolution IN ('DNS', 'DNS_ROUND_ROBIN')) b) n;

COMMENT ON VIEW mesh.services IS 'Everything callable in the mesh, a row for each host of each ServiceEntry, wherever that is kept: in the database, or in a registry that servers read. It is read-only: write to mesh.service_entries, and change what a registry has there.';
COMMENT ON COLUMN mesh.services.host IS 'What clients ask for, in lower case.';
COMMENT ON COLUMN mesh.services.namespace IS 'The namespace of the ServiceEntry.';
COMMENT ON COLUMN mesh.services.name IS 'The name of the ServiceEntry. Of a registry it begins with the name of that.';
COMMENT ON COLUMN mesh.services.origin IS 'The registry that has it, as in mesh.registries; NULL if it is the mesh''s own.';
COMMENT ON COLUMN mesh.services.entry IS 'What to look for in the registry.';
COMMENT ON COLUMN mesh.services.in_effect IS 'False if the host is that of an earlier origin in the namespace, which is in no set with this one: then nobody is sent to the endpoints of this one.';
COMMENT ON COLUMN mesh.services.ports IS 'The ports, a list of objects with name, number, protocol and target: the port of endpoints that do not say another.';
COMMENT ON COLUMN mesh.services.location IS 'MESH_INTERNAL if members of the mesh serve it, or MESH_EXTERNAL.';
COMMENT ON COLUMN mesh.services.resolution IS 'How proxies find its endpoints: STATIC, DNS, DNS_ROUND_ROBIN, DYNAMIC_DNS or NONE.';
COMMENT ON COLUMN mesh.services.addresses IS 'Virtual addresses of the service, if it has some.';
COMMENT ON COLUMN mesh.services.labels IS 'The labels of the ServiceEntry, an object of strings.';
COMMENT ON COLUMN mesh.services.endpoints IS 'How many endpoints it has. One, the host itself, if proxies resolve it and it lists none.';
COMMENT ON COLUMN mesh.services.healthy IS 'How many of them are healthy.';
COMMENT ON COLUMN mesh.services.stale_since IS 'Since when this may not be the newest, because the registry cannot be asked, or nobody mirrors it; NULL while it is.';

CREATE OR REPLACE VIEW mesh.endpoints WITH (security_barrier) AS
  SELECT s.host, s.namespace, s.name, s.origin, s.in_effect, b.endpoint ->> 'address' AS address,
    mesh_internal.endpoint_ports(mesh_internal.service_ports(s.spec), b.endpoint) AS ports, coalesce(mesh_internal.whole_number(b.endpoint -> 'weight'), 1) AS weight,
    coalesce(nullif(b.endpoint ->> 'locality', ''), replace(b.labels ->> 'istio-locality', '.', '/'), '') AS locality, coalesce(nullif(b.endpoint ->> 'network', ''), b.labels ->> 'topology.istio.io/network', '') AS network,
    mesh_internal.with_place(b.labels, b.endpoint ->> 'locality', b.endpoint ->> 'network') AS labels, b.health, coalesce(mesh_internal.field_of(b.endpoint, '{serviceAccount}', 'service_account') #>> '{}', '') AS service_account, b.workload, s.stale_since
  FROM mesh_internal.claimed_hosts s, mesh_internal.backends_of(s.host, s.namespace, s.spec, s.selector, s.resolution IN ('DNS', 'DNS_ROUND_ROBIN')) b;

COMMENT ON VIEW mesh.endpoints IS 'What serves the hosts of mesh.services, a row for each endpoint of each: those that ServiceEntries list, and the WorkloadEntries that they select. It is read-only.';
COMMENT ON COLUMN mesh.endpoints.host IS 'What clients ask for, in lower case.';
COMMENT ON COLUMN mesh.endpoints.namespace IS 'The namespace of the ServiceEntry.';
COMMENT ON COLUMN mesh.endpoints.name IS 'The name of the ServiceEntry.';
COMMENT ON COLUMN mesh.endpoints.origin IS 'The registry that has the ServiceEntry, as in mesh.registries; NULL if it is the mesh''s own.';
COMMENT ON COLUMN mesh.endpoints.in_effect IS 'False if the host is that of an earlier origin in the namespace, so that nobody is sent here for it.';
COMMENT ON COLUMN mesh.endpoints.address IS 'The address, a host name that proxies resolve, or a socket.';
COMMENT ON COLUMN mesh.endpoints.ports IS 'On which port it serves each port of the service: an object of the ports'' names and numbers.';
COMMENT ON COLUMN mesh.endpoints.weight IS 'Its share of the requests beside others.';
COMMENT ON COLUMN mesh.endpoints.locality IS 'The locality, as REGION/ZONE/SUBZONE.';
COMMENT ON COLUMN mesh.endpoints.network IS 'The network of its address.';
COMMENT ON COLUMN mesh.endpoints.labels IS 'Its labels, an object of strings, by which subsets choose: those of where it is, too, such as topology.istio.io/network.';
COMMENT ON COLUMN mesh.endpoints.health IS 'healthy, unhealthy, unknown: nobody has looked yet, or draining: it is about to leave. Only healthy ones are sent requests while there are any, and draining ones none.';
COMMENT ON COLUMN mesh.endpoints.service_account IS 'The service account as which it takes mutual TLS; empty if it takes none.';
COMMENT ON COLUMN mesh.endpoints.workload IS 'The WorkloadEntry that was selected; NULL if the ServiceEntry lists the endpoint.';
COMMENT ON COLUMN mesh.endpoints.stale_since IS 'Since when this may not be the newest; NULL while it is.';

-- Whoever reads all is told of each registry, and others of those that have something in their
-- namespaces, without why one cannot be asked: that may name hosts.
CREATE OR REPLACE VIEW mesh.registries WITH (security_barrier) AS
  SELECT k.name, k.rank, k.server, k.state, k.stale_since, CASE WHEN (SELECT mesh_internal.shows_all()) THEN k.reason ELSE '' END AS reason, n.resources,
    CASE WHEN (SELECT mesh_internal.shows_all()) THEN k.bad_all ELSE 0 END AS bad_entries
  FROM mesh_internal.known_registries k, LATERAL (SELECT count(*) AS resources FROM mesh_internal.registry_entries e WHERE e.registry = k.name
    AND ((SELECT mesh_internal.shows_all()) OR e.namespace = ANY ((SELECT mesh_internal.shown_namespaces())::text[]))) n
  WHERE (SELECT mesh_internal.shows_all()) OR n.resources > 0;

COMMENT ON VIEW mesh.registries IS 'The registries that servers read beside the database, as the servers tell. One that no server names any more is shown for an hour.';
COMMENT ON COLUMN mesh.registries.name IS 'The name of the registry, with which the names of its resources begin.';
COMMENT ON COLUMN mesh.registries.rank IS 'How many origins count before it, for a host that several have. The mesh''s own counts first.';
COMMENT ON COLUMN mesh.registries.server IS 'The mcp-server that tells of it. Others that read it serve it, too.';
COMMENT ON COLUMN mesh.registries.state IS 'current; stale: it cannot be asked, and what it had stays; unread: the server has not read it yet; left: no server tells of it any more.';
COMMENT ON COLUMN mesh.registries.stale_since IS 'Since when what is shown of it may not be the newest; NULL while it is.';
COMMENT ON COLUMN mesh.registries.reason IS 'Why it cannot be asked; for those who may read everything.';
COMMENT ON COLUMN mesh.registries.resources IS 'How many resources of it are shown here.';
COMMENT ON COLUMN mesh.registries.bad_entries IS 'How many of its entries cannot be used; their last good state stays. mesh.problems lists them. For those who may read everything.';

-- registry_problems has entries that cannot be used, and registries that cannot be asked.
CREATE OR REPLACE VIEW mesh_internal.registry_problems AS
  SELECT 'error' AS severity, 'bad-entry' AS code, coalesce(b.kind, 'Registry') AS kind, coalesce(b.api_group, 'registry.pgmesh.io') AS api_group,
    CASE WHEN b.kind IS NULL THEN '' ELSE b.namespace END AS namespace, CASE WHEN b.kind IS NULL THEN k.name ELSE b.name END AS name, '' AS path,
    format('the registry %s has an entry that cannot be used: %s: %s', k.name, b.entry, b.reason) AS message,
    'correct it in the registry; until then its last good state stays' AS hint
  FROM mesh_internal.known_registries k, jsonb_to_recordset(k.bad) AS b (entry text, kind text, api_group text, namespace text, name text, reason text)
  UNION ALL
  SELECT 'warning', 'stale-registry', 'Registry', 'registry.pgmesh.io', '', k.name, '',
    format('what the registry %s has is as it was at %s: %s', k.name, to_char(k.stale_since AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), coalesce(nullif(k.reason, ''), 'it was not read yet')),
    'have the servers reach it, or start them without it'
  FROM mesh_internal.known_registries k WHERE k.stale_since IS NOT NULL;

COMMENT ON VIEW mesh_internal.registry_problems IS 'Internal. Read mesh.problems.';
