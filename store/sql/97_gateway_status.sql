-- The status of resources of the Gateway API in that API's own shape: what discoveries decide of it,
-- completed by what depends on machines.

-- decided_statuses returns what the discoveries that report now decide of resources as they are now.
-- Of several the one counts that has changed last.
CREATE OR REPLACE FUNCTION mesh_internal.decided_statuses(kinds text[], namespaces text[], names text[], of_registry text)
RETURNS TABLE (kind text, api_group text, namespace text, name text, status jsonb, decided timestamptz)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_nestloop = off SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
BEGIN
  IF NOT EXISTS (SELECT FROM mesh_internal.report_statuses) THEN
    RETURN;
  END IF;
  RETURN QUERY
    SELECT DISTINCT ON (c.kind, c.api_group, c.namespace, c.name) c.kind, c.api_group, c.namespace, c.name, s.status, s.changed
    FROM mesh_internal.chosen_resources($1, $2, $3, $4) c JOIN mesh_internal.report_statuses s USING (name, namespace, kind, api_group)
      JOIN mesh_internal.reports r ON r.id = s.report
      LEFT JOIN mesh_internal.report_versions v ON (v.name, v.namespace, v.kind, v.api_group, v.report) = (c.name, c.namespace, c.kind, c.api_group, s.report)
    WHERE c.hider IS NULL AND r.ended IS NULL AND r.keeper = ANY ((SELECT mesh_internal.live_keepers())::int[])
      AND CASE WHEN c.registry IS NULL THEN r.revision >= c.runs_from ELSE v.version = c.version END
    ORDER BY 1, 2, 3, 4, s.changed DESC;
END $$;

-- gateway_addresses lists the addresses of the machines that serve a Gateway.
CREATE OR REPLACE FUNCTION mesh_internal.gateway_addresses(of_namespace text, of_name text) RETURNS text[]
LANGUAGE sql STABLE AS $$
  SELECT ARRAY(SELECT u.address
    FROM mesh_internal.runners_of('Gateway', 'gateway.networking.k8s.io', of_namespace, of_name) r
      JOIN mesh_internal.known_proxies p ON (p.namespace, p.proxy) = (r.namespace, r.proxy), unnest(p.addresses) WITH ORDINALITY AS u (address, at)
    GROUP BY 1 ORDER BY min(p.proxy), min(u.at), 1)
$$;

-- api_programmed writes the condition Programmed as the Gateway API has it, of that of
-- mesh.resource_status.
CREATE OR REPLACE FUNCTION mesh_internal.api_programmed(kind text, programmed jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$
  SELECT programmed || CASE programmed ->> 'reason'
    WHEN 'Programmed' THEN '{}'
    WHEN 'Pending' THEN '{}'
    WHEN 'Refused' THEN '{"reason": "Invalid"}'
    WHEN 'NoProxies' THEN jsonb_build_object('status', 'False', 'reason', CASE kind WHEN 'Gateway' THEN 'NoResources' ELSE 'Pending' END,
      'message', 'no machine that serves the Gateway is connected: run mesh-agent with --role gateway --gateway and its name')
    ELSE '{"status": "Unknown", "reason": "Pending"}' END
$$;

-- dated_conditions completes conditions with dated, which says since when they hold, and of which
-- revision. Those that do not say whether something is programmed are given that, unless it is NULL.
-- These functions go through lists by themselves: for lists so short, a query would take longer.
DROP FUNCTION IF EXISTS mesh_internal.dated_conditions(jsonb, jsonb, timestamptz, bigint); -- of earlier programs

CREATE OR REPLACE FUNCTION mesh_internal.dated_conditions(conditions jsonb, programmed jsonb, dated jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  complete jsonb := '[]';
BEGIN
  FOR i IN 0 .. jsonb_array_length(conditions) - 1 LOOP
    complete := complete || (conditions -> i || dated);
  END LOOP;
  IF programmed IS NULL OR conditions @> '[{"type": "Programmed"}]' THEN
    RETURN complete;
  END IF;
  RETURN complete || programmed;
END $$;

-- dated_list completes the conditions of each element of a list, as dated_conditions does. The
-- listeners that take a route are left out: mesh.attached_routes has them.
DROP FUNCTION IF EXISTS mesh_internal.dated_list(jsonb, jsonb, timestamptz, bigint); -- of earlier programs

CREATE OR REPLACE FUNCTION mesh_internal.dated_list(list jsonb, programmed jsonb, dated jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  complete jsonb := '[]';
BEGIN
  FOR i IN 0 .. jsonb_array_length(list) - 1 LOOP
    complete := complete || ((list -> i) - 'listeners' || jsonb_build_object('conditions', mesh_internal.dated_conditions(list -> i -> 'conditions', programmed, dated)));
  END LOOP;
  RETURN complete;
END $$;

-- api_status completes what a discovery decides of a status. NULL where no discovery does. Programmed
-- is the condition of mesh.resource_status.
CREATE OR REPLACE FUNCTION mesh_internal.api_status(kind text, namespace text, name text, status jsonb, since timestamptz, revision bigint, programmed jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  dated     jsonb := mesh_internal.condition_since(since, revision);
  own       jsonb; -- whether a Gateway, or a set of listeners, is programmed
  addresses text[];
  asked     text[]; -- those that the Gateway asks for, if it asks for some
  missing   text[];
BEGIN
  IF status IS NULL THEN
    RETURN NULL;
  END IF;
  IF kind IN ('Gateway', 'ListenerSet') THEN
    own := mesh_internal.api_programmed(kind, programmed);
  END IF;
  IF kind = 'Gateway' THEN
    addresses := mesh_internal.gateway_addresses(namespace, name);
    asked := ARRAY(SELECT a ->> 'value' FROM jsonb_array_elements(status -> 'addresses') WITH ORDINALITY u (a, n) ORDER BY n);
    missing := ARRAY(SELECT a FROM unnest(asked) WITH ORDINALITY u (a, n) WHERE a <> ALL (addresses) ORDER BY n);
    IF own ->> 'status' = 'True' AND addresses = '{}' THEN
      own := own || '{"status": "False", "reason": "AddressNotAssigned", "message": "the machines that serve it say no address of theirs"}';
    ELSIF own ->> 'status' = 'True' AND missing <> '{}' THEN
      own := own || jsonb_build_object('status', 'False', 'reason', 'AddressNotUsable',
        'message', 'no connected machine that serves it has the address ' || array_to_string(missing, ', ') || ': start one with --node-ip and it, or take it out of spec.addresses');
    END IF;
    IF asked <> '{}' THEN
      addresses := ARRAY(SELECT a FROM unnest(asked) WITH ORDINALITY u (a, n) WHERE a <> ALL (missing) ORDER BY n);
    END IF;
    addresses := addresses[1:16]; -- the API has room for no more
    status := status || jsonb_build_object('addresses',
      (SELECT coalesce(jsonb_agg(jsonb_build_object('type', 'IPAddress', 'value', a) ORDER BY n), '[]') FROM unnest(addresses) WITH ORDINALITY u (a, n)));
  END IF;
  IF status ? 'conditions' THEN
    status := status || jsonb_build_object('conditions', mesh_internal.dated_conditions(status -> 'conditions', own, dated));
  END IF;
  IF status ? 'listeners' THEN
    status := status || jsonb_build_object('listeners', mesh_internal.dated_list(status -> 'listeners', mesh_internal.api_programmed('Listener', programmed), dated));
  END IF;
  IF status ? 'parents' THEN
    status := status || jsonb_build_object('parents', mesh_internal.dated_list(status -> 'parents', NULL, dated));
  END IF;
  IF status ? 'ancestors' THEN
    status := status || jsonb_build_object('ancestors', mesh_internal.dated_list(status -> 'ancestors', NULL, dated));
  END IF;
  RETURN status;
END $$;
