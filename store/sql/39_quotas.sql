-- How much may be stored. The size of a resource is limited for everybody. For those who may write
-- only to some namespaces, so are the number and size of a namespace's resources, and what its
-- changes add to the history in a day. Who may write everywhere sets the limits.

-- size_of returns the size of a resource as JSON.
CREATE OR REPLACE FUNCTION mesh_internal.size_of(spec jsonb, labels jsonb, annotations jsonb) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT octet_length(spec::text)::bigint + octet_length(labels::text) + octet_length(annotations::text)
$$;

-- in_words formats a number of bytes for people.
CREATE OR REPLACE FUNCTION mesh_internal.in_words(bytes numeric) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN bytes < 10240 THEN bytes || ' bytes' WHEN bytes < 10485760 THEN round(bytes / 1024) || ' KiB' ELSE round(bytes / 1048576) || ' MiB' END
$$;

CREATE OR REPLACE FUNCTION mesh_internal.in_words(number numeric, in_bytes boolean) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN in_bytes THEN mesh_internal.in_words(number) ELSE number::text END
$$;

-- refuse_large refuses resources above the limit. A larger one may shrink. Only those of more than
-- 8 kB in memory are measured.
CREATE OR REPLACE FUNCTION mesh_internal.refuse_large(written mesh_internal.changes[]) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  c       mesh_internal.changes;
  size    bigint;
  allowed bigint;
BEGIN
  FOREACH c IN ARRAY written LOOP
    CONTINUE WHEN c.after_spec IS NULL OR pg_column_size(c.after_spec) + pg_column_size(c.after_labels) + pg_column_size(c.after_annotations) < 8192;
    size := mesh_internal.size_of(c.after_spec, c.after_labels, c.after_annotations);
    allowed := mesh.setting('resource_max_bytes', c.namespace)::bigint;
    IF size > allowed AND size >= coalesce(mesh_internal.size_of(c.before_spec, c.before_labels, c.before_annotations), 0) THEN
      PERFORM mesh_internal.refuse('23514', c.kind, c.namespace, c.name, '', format('is %s large, and may be %s at most', mesh_internal.in_words(size), mesh_internal.in_words(allowed)),
        'split it into several; the owner of the mesh may raise the setting resource_max_bytes');
    END IF;
  END LOOP;
END $$;

-- is_limited reports whether quotas apply to the writer: a role that may not write everywhere, or a
-- caller that a server marks so.
CREATE OR REPLACE FUNCTION mesh_internal.is_limited() RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN coalesce(current_setting('mesh.limited', true), '') = 'on' OR NOT mesh_internal.writes_all();
END $$;

-- items returns the number of items in a list; 0 if it is no list.
CREATE OR REPLACE FUNCTION mesh_internal.items(list jsonb) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN jsonb_typeof(list) = 'array' THEN jsonb_array_length(list)::bigint ELSE 0 END
$$;

-- ports_of returns how many clusters proxies make of a ServiceEntry: one for each port of each
-- host.
CREATE OR REPLACE FUNCTION mesh_internal.ports_of(spec jsonb) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT greatest(mesh_internal.items(spec -> 'hosts'), 1) * greatest(mesh_internal.items(spec -> 'ports'), 1)
$$;

-- rules_written_out returns what proxies hold of the rules of a route of the Gateway API, beyond the
-- rules as they are written: all of them for each hostname at each parent, at least 1 KiB, and each
-- rule for each of its matches.
CREATE OR REPLACE FUNCTION mesh_internal.rules_written_out(spec jsonb) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT greatest((greatest(mesh_internal.items(spec -> 'hostnames'), 1) * greatest(mesh_internal.items(spec -> 'parentRefs'), 1) - 1) * greatest(size, 1024)
    + size - octet_length((spec -> 'rules')::text), 0)
  FROM (SELECT coalesce(sum(greatest(mesh_internal.items(rule -> 'matches'), 1) * octet_length((rule - 'matches')::text) + coalesce(octet_length((rule -> 'matches')::text), 0)), 0)::bigint
    FROM jsonb_path_query(spec, '$.rules[*] ? (@.type() == "object")') rule) rules (size)
$$;

-- written_out returns the size of a resource as proxies hold it, in blocks of 4 KiB. For a
-- ServiceEntry that is a cluster for each port of each host, which counts as 8 KiB and its
-- endpoints; for a VirtualService, its routes for each of its hosts; for a route of the Gateway API,
-- its rules, and for a UDPRoute the draws among its backends; for a DestinationRule, its policy for each of its subsets. An extension stands in every
-- filter chain of its proxies, of which a few hundred are counted.
CREATE OR REPLACE FUNCTION mesh.written_out(kind text, spec jsonb, labels jsonb, annotations jsonb) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT (4095 + mesh_internal.size_of(spec, labels, annotations) + CASE kind
    WHEN 'ServiceEntry' THEN mesh_internal.ports_of(spec) * (8192 + coalesce(octet_length((spec -> 'endpoints')::text), 0))
      + mesh_internal.items(spec -> 'addresses') * mesh_internal.items(spec -> 'ports') * 4096
    WHEN 'VirtualService' THEN (greatest(mesh_internal.items(spec -> 'hosts'), 1) * greatest(mesh_internal.items(spec -> 'gateways'), 1) - 1)
      * (octet_length(spec::text) - coalesce(octet_length((spec -> 'hosts')::text), 0))
    WHEN 'DestinationRule' THEN mesh_internal.items(spec -> 'subsets') * coalesce(octet_length((spec -> 'trafficPolicy')::text), 0)
    WHEN 'Gateway' THEN (mesh_internal.items(jsonb_path_query_array(spec, '$.servers[*].hosts[*]')) + mesh_internal.items(spec -> 'listeners')) * 1024
    WHEN 'ListenerSet' THEN mesh_internal.items(spec -> 'listeners') * 1024
    WHEN 'UDPRoute' THEN mesh_internal.rules_written_out(spec)
      + greatest(mesh_internal.items(spec #> '{rules,0,backendRefs}') - 1, 0) * greatest(mesh_internal.items(spec -> 'parentRefs'), 1) * 16384
    WHEN 'WasmPlugin' THEN 65536
    WHEN 'TrafficExtension' THEN 65536
    ELSE CASE WHEN kind LIKE '%Route' THEN mesh_internal.rules_written_out(spec) ELSE 0 END END) / 4096 * 4096
$$;

COMMENT ON FUNCTION mesh.written_out IS 'Returns how large a resource is as proxies hold it, in bytes, rounded up to blocks of 4 KiB. Quotas count this.';

-- namespace_usage returns what a namespace has. Its size in Postgres says nothing, because Postgres
-- compresses.
CREATE OR REPLACE FUNCTION mesh_internal.namespace_usage(namespace text, OUT resources bigint, OUT bytes bigint)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET enable_hashjoin = on SET enable_seqscan = on AS $$
BEGIN
  SELECT count(*), coalesce(sum(mesh.written_out(r.kind, r.spec, r.labels, r.annotations)), 0) INTO resources, bytes
    FROM mesh.resources r WHERE r.namespace = namespace_usage.namespace;
  bytes := bytes + mesh_internal.subsets_written_out(namespace) + mesh_internal.workloads_written_out(namespace);
END $$;

-- subsets_written_out returns the size of the clusters that proxies make of subsets: one for each
-- port of each host that the DestinationRule is about.
CREATE OR REPLACE FUNCTION mesh_internal.subsets_written_out(namespace text) RETURNS bigint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET enable_hashjoin = on SET enable_seqscan = on AS $$
BEGIN
  RETURN (
    WITH rules AS MATERIALIZED (
      SELECT mesh_internal.full_host(r.spec ->> 'host', r.namespace) AS host, sum(mesh_internal.items(r.spec -> 'subsets')) AS subsets
      FROM mesh.resources r WHERE r.kind = 'DestinationRule' AND r.namespace = subsets_written_out.namespace AND r.spec ? 'subsets' GROUP BY 1
    ), services AS MATERIALIZED (
      SELECT lower(h) AS host, sum(greatest(mesh_internal.items(r.spec -> 'ports'), 1)) AS ports
      FROM mesh.resources r, jsonb_array_elements_text(CASE WHEN mesh_internal.items(r.spec -> 'hosts') > 0 THEN r.spec -> 'hosts' ELSE '[]' END) h
      WHERE r.kind = 'ServiceEntry' AND r.namespace = subsets_written_out.namespace AND EXISTS (SELECT FROM rules) GROUP BY 1
    )
    SELECT coalesce(sum(clusters), 0)::bigint * 8192 FROM (
      SELECT r.subsets * coalesce(s.ports, 1) AS clusters FROM rules r LEFT JOIN services s ON s.host = r.host WHERE r.host NOT LIKE '*%'
      UNION ALL SELECT r.subsets * s.ports FROM rules r JOIN services s ON right(s.host, length(r.host) - 1) = substr(r.host, 2) WHERE r.host LIKE '*%') c);
END $$;

-- workloads_written_out returns the size of the endpoints that proxies make of WorkloadEntries: one
-- for each port of each host that selects them.
CREATE OR REPLACE FUNCTION mesh_internal.workloads_written_out(namespace text) RETURNS bigint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET enable_hashjoin = on SET enable_seqscan = on AS $$
BEGIN
  RETURN (
    WITH workloads AS MATERIALIZED (
      SELECT mesh_internal.with_place(w.labels, w.locality, w.network) AS labels, w.alike
      FROM (
        SELECT coalesce(r.spec -> 'labels', '{}') || r.labels AS labels, r.spec ->> 'locality' AS locality, r.spec ->> 'network' AS network, count(*) AS alike
        FROM mesh.resources r WHERE r.kind = 'WorkloadEntry' AND r.namespace = workloads_written_out.namespace GROUP BY 1, 2, 3) w
    ), selectors AS MATERIALIZED (
      SELECT r.spec #> '{workloadSelector,labels}' AS labels, sum(mesh_internal.ports_of(r.spec)) AS ports
      FROM mesh.resources r WHERE r.kind = 'ServiceEntry' AND r.namespace = workloads_written_out.namespace AND r.spec ? 'workloadSelector'
        AND EXISTS (SELECT FROM workloads) GROUP BY 1
    )
    SELECT coalesce(sum(s.ports * w.alike), 0)::bigint * 256 FROM selectors s JOIN workloads w ON w.labels @> s.labels);
END $$;

-- may_grow reports whether a change can leave its namespace larger than before.
CREATE OR REPLACE FUNCTION mesh_internal.may_grow(c mesh_internal.changes) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF c.after_spec IS NULL OR c.before_spec IS NULL THEN
    RETURN c.before_spec IS NULL;
  ELSIF mesh.written_out(c.kind, c.after_spec, c.after_labels, c.after_annotations) > mesh.written_out(c.kind, c.before_spec, c.before_labels, c.before_annotations) THEN
    RETURN true;
  END IF;
  RETURN CASE c.kind -- what others are multiplied by
    WHEN 'DestinationRule' THEN (c.after_spec -> 'host', mesh_internal.items(c.after_spec -> 'subsets')) IS DISTINCT FROM (c.before_spec -> 'host', mesh_internal.items(c.before_spec -> 'subsets'))
    WHEN 'ServiceEntry' THEN (c.after_spec -> 'workloadSelector', c.after_spec -> 'hosts') IS DISTINCT FROM (c.before_spec -> 'workloadSelector', c.before_spec -> 'hosts')
    WHEN 'WorkloadEntry' THEN (c.after_spec -> 'labels', c.after_spec -> 'network', c.after_spec -> 'locality', c.after_labels)
      IS DISTINCT FROM (c.before_spec -> 'labels', c.before_spec -> 'network', c.before_spec -> 'locality', c.before_labels)
    ELSE false END;
END $$;

-- check_quotas refuses a transaction that leaves a namespace above its limits, and larger than
-- before.
CREATE OR REPLACE FUNCTION mesh_internal.check_quotas(of bigint) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  n     record;
  usage record;
BEGIN
  FOR n IN
    SELECT c.namespace, count(*) FILTER (WHERE c.before_spec IS NULL) - count(*) FILTER (WHERE c.after_spec IS NULL) AS more, bool_or(mesh_internal.may_grow(c)) AS grows
    FROM mesh_internal.changes c WHERE c.transaction_id = of GROUP BY c.namespace
  LOOP
    CONTINUE WHEN NOT n.grows;
    usage := mesh_internal.namespace_usage(n.namespace);
    PERFORM mesh_internal.refuse_beyond(n.namespace, 'namespace_max_resources', usage.resources, n.more > 0, 'resources', false);
    PERFORM mesh_internal.refuse_beyond(n.namespace, 'namespace_max_bytes', usage.bytes, true, 'of resources, as proxies have them', true);
  END LOOP;
END $$;

-- refuse_beyond raises which limit is exceeded, by how much, and who can raise it; or warns if the
-- limit is near.
CREATE OR REPLACE FUNCTION mesh_internal.refuse_beyond(namespace text, setting text, used bigint, grows boolean, what text, in_bytes boolean) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  allowed bigint := mesh.setting(setting, namespace)::bigint;
BEGIN
  IF NOT grows OR used * 5 <= allowed * 4 THEN
    RETURN;
  ELSIF used <= allowed THEN
    RAISE WARNING USING MESSAGE = format('the namespace "%s" now has %s %s, and may have %s', namespace, mesh_internal.in_words(used, in_bytes), what, mesh_internal.in_words(allowed, in_bytes)),
      HINT = format('the owner of the mesh may raise the setting %s; mesh.quotas has what is left', setting);
    RETURN;
  END IF;
  RAISE EXCEPTION USING ERRCODE = 'MS008',
    MESSAGE = format('the namespace "%s" would have %s %s, and may have %s', namespace, mesh_internal.in_words(used, in_bytes), what, mesh_internal.in_words(allowed, in_bytes)),
    HINT = format('delete some first, or have the owner of the mesh run: INSERT INTO mesh.settings (namespace, name, value) VALUES (%L, %L, …) ON CONFLICT (name, namespace) DO UPDATE SET value = EXCLUDED.value',
      namespace, setting);
END $$;

-- written_today returns how many bytes the changes of a namespace have added to the history since
-- midnight, UTC.
CREATE OR REPLACE FUNCTION mesh_internal.written_today(namespace text) RETURNS bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce((SELECT w.bytes FROM mesh_internal.written w WHERE w.namespace = written_today.namespace AND w.day = (now() AT TIME ZONE 'UTC')::date), 0)
$$;

-- count_written adds what a transaction writes into the history to today's count of its namespaces,
-- and refuses it above their limits. It runs last before the numbering, because other transactions
-- of these namespaces wait from here on.
CREATE OR REPLACE FUNCTION mesh_internal.count_written(of bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  message bigint := octet_length(coalesce(current_setting('mesh.message', true), ''));
  today   date := (now() AT TIME ZONE 'UTC')::date;
  n       record;
BEGIN
  IF message > 65536 THEN
    RAISE EXCEPTION USING ERRCODE = 'MS008', MESSAGE = format('the message of this change is %s large, and may be 64 KiB at most', mesh_internal.in_words(message)), HINT = 'write less in mesh.message';
  END IF;
  FOR n IN
    INSERT INTO mesh_internal.written AS w (namespace, day, bytes)
    SELECT c.namespace, today, sum(c.bytes) + message FROM (
      SELECT x.namespace, 512 + coalesce(mesh_internal.size_of(x.before_spec, x.before_labels, x.before_annotations), 0)
        + coalesce(mesh_internal.size_of(x.after_spec, x.after_labels, x.after_annotations), 0) AS bytes FROM mesh_internal.changes x WHERE x.transaction_id = of
      UNION ALL SELECT x.namespace, 1024 FROM mesh_internal.secret_changes x WHERE x.transaction_id = of) c
    GROUP BY c.namespace ORDER BY c.namespace
    ON CONFLICT (namespace) DO UPDATE SET day = EXCLUDED.day, bytes = EXCLUDED.bytes + CASE WHEN w.day = EXCLUDED.day THEN w.bytes ELSE 0 END
    RETURNING w.namespace, w.bytes, mesh.setting('namespace_max_daily_bytes', w.namespace)::bigint AS allowed
  LOOP
    IF n.bytes > n.allowed THEN
      RAISE EXCEPTION USING ERRCODE = 'MS008',
        MESSAGE = format('the changes of the namespace "%s" would have added %s to the history today, and may add %s', n.namespace, mesh_internal.in_words(n.bytes), mesh_internal.in_words(n.allowed)),
        HINT = format('go on after midnight, UTC, or have the owner of the mesh raise the setting namespace_max_daily_bytes for %L', n.namespace);
    END IF;
  END LOOP;
END $$;

-- find_quotas lists what the namespaces that the acting role may read have, and their limits.
CREATE OR REPLACE FUNCTION mesh_internal.find_quotas() RETURNS TABLE (namespace text, resources bigint, max_resources bigint, bytes bigint, max_bytes bigint, written_today bigint, max_written bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
    SELECT n.namespace, u.resources, mesh.setting('namespace_max_resources', n.namespace)::bigint, u.bytes, mesh.setting('namespace_max_bytes', n.namespace)::bigint,
      mesh_internal.written_today(n.namespace), mesh.setting('namespace_max_daily_bytes', n.namespace)::bigint
    FROM (SELECT DISTINCT r.namespace FROM mesh.resources r WHERE mesh_internal.sees_all() OR r.namespace = ANY (mesh_internal.readable_namespaces())
        UNION SELECT w FROM unnest(mesh_internal.readable_namespaces()) w) n,
      LATERAL mesh_internal.namespace_usage(n.namespace) u;
END $$;

CREATE OR REPLACE VIEW mesh.quotas AS
  SELECT namespace, resources, max_resources, round(100.0 * resources / max_resources, 1) AS resources_percent,
    bytes, max_bytes, round(100.0 * bytes / max_bytes, 1) AS bytes_percent,
    written_today, max_written, round(100.0 * written_today / max_written, 1) AS written_percent
  FROM mesh_internal.find_quotas();

COMMENT ON VIEW mesh.quotas IS 'What each namespace has, and how much those may make of it who may not write to every namespace. mesh.settings has the limits.';
COMMENT ON COLUMN mesh.quotas.namespace IS 'The namespace.';
COMMENT ON COLUMN mesh.quotas.resources IS 'How many resources it has.';
COMMENT ON COLUMN mesh.quotas.max_resources IS 'How many it may have.';
COMMENT ON COLUMN mesh.quotas.resources_percent IS 'How much of that it has used.';
COMMENT ON COLUMN mesh.quotas.bytes IS 'How large its resources are together, as proxies hold them (mesh.written_out).';
COMMENT ON COLUMN mesh.quotas.max_bytes IS 'How large they may be.';
COMMENT ON COLUMN mesh.quotas.bytes_percent IS 'How much of that it has used.';
COMMENT ON COLUMN mesh.quotas.written_today IS 'How many bytes its changes have added to the history since midnight, UTC.';
COMMENT ON COLUMN mesh.quotas.max_written IS 'How many they may add in a day.';
COMMENT ON COLUMN mesh.quotas.written_percent IS 'How much of that it has used.';
