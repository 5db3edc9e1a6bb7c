-- Each discovery reports, in a session, the machines that are connected to it. A report counts from
-- the time at which the machine began to register, whichever session comes first; for the same time
-- the later session counts. A machine that is gone, or whose session has ended, keeps its entry for
-- a grace period, in which another session may take it over.
--
-- mesh_internal.workload_clock measures how long machines are gone. It moves only while a server
-- watches. So an outage of the database or of all servers, or a clock that somebody sets, takes
-- nobody's entry away.

-- open_workload_session begins a session for a stream of a server.
CREATE OR REPLACE FUNCTION mesh_internal.open_workload_session(keeper uuid, server text, discovery text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  opened bigint;
BEGIN
  PERFORM mesh_internal.require_server('register machines');
  INSERT INTO mesh_internal.workload_sessions (keeper, server, discovery, refreshed)
    SELECT open_workload_session.keeper, left(open_workload_session.server, 253), left(open_workload_session.discovery, 253), c.uptime FROM mesh_internal.workload_clock c WHERE c.one
    RETURNING id INTO opened;
  RETURN opened;
END $$;

COMMENT ON FUNCTION mesh_internal.open_workload_session IS 'Internal. Servers register machines by it.';

-- end_workload_sessions ends the sessions of closed streams. The grace period of their machines
-- begins.
CREATE OR REPLACE FUNCTION mesh_internal.end_workload_sessions(keeper uuid, sessions bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM mesh_internal.require_server('register machines');
  UPDATE mesh_internal.workload_sessions s SET ended = c.uptime, ended_at = now() FROM mesh_internal.workload_clock c
    WHERE c.one AND s.id = ANY (sessions) AND s.keeper = end_workload_sessions.keeper AND s.ended IS NULL;
END $$;

COMMENT ON FUNCTION mesh_internal.end_workload_sessions IS 'Internal. Servers register machines by it.';

-- refresh_workload_sessions records that a server still has the streams of some sessions. It
-- returns those that count, with the last message of each that was taken. It does not wait for a
-- session that is taking a message, which says as much.
CREATE OR REPLACE FUNCTION mesh_internal.refresh_workload_sessions(keeper uuid, sessions bigint[]) RETURNS TABLE (session bigint, number bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  clock bigint := (SELECT c.uptime FROM mesh_internal.workload_clock c WHERE c.one);
BEGIN
  PERFORM mesh_internal.require_server('register machines');
  UPDATE mesh_internal.workload_sessions s SET refreshed = clock
    WHERE s.id = ANY (ARRAY(SELECT o.id FROM mesh_internal.workload_sessions o
      WHERE o.id = ANY (sessions) AND o.keeper = refresh_workload_sessions.keeper AND o.ended IS NULL AND o.refreshed < clock FOR UPDATE OF o SKIP LOCKED));
  RETURN QUERY SELECT s.id, s.number FROM mesh_internal.workload_sessions s
    WHERE s.id = ANY (sessions) AND s.keeper = refresh_workload_sessions.keeper AND s.ended IS NULL;
END $$;

COMMENT ON FUNCTION mesh_internal.refresh_workload_sessions IS 'Internal. Servers register machines by it.';

-- workload_mistake returns what is wrong with a report of a machine by itself; NULL if nothing.
CREATE OR REPLACE FUNCTION mesh_internal.workload_mistake(w mesh_internal.workload_instances, state text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  wrong mesh_internal.problem;
BEGIN
  IF (w.namespace ~ '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$' AND char_length(w.namespace) <= 63) IS NOT TRUE THEN
    RETURN format('"%s" is not a valid namespace: at most 63 lower-case letters, digits and "-"', left(w.namespace, 100));
  ELSIF mesh_internal.is_name(w.workload_group) IS NOT TRUE THEN
    RETURN format('"%s" is not the name of a WorkloadGroup: name one of the machine''s namespace', left(w.workload_group, 300));
  ELSIF (w.machine !~ '[[:space:][:cntrl:]]' AND octet_length(w.machine) BETWEEN 1 AND 253) IS NOT TRUE THEN
    RETURN format('"%s" is not the id of a machine: at most 253 bytes without spaces', left(w.machine, 300));
  ELSIF (w.since > 0) IS NOT TRUE THEN
    RETURN 'the machine does not say since when it registers: use an agent and a discovery of one version';
  ELSIF char_length(w.service_account) > 253 OR char_length(w.enrolment) > 253 THEN
    RETURN 'the service account or the enrolment of the machine is longer than 253 characters';
  ELSIF state <> 'here' THEN
    RETURN NULL;
  ELSIF NOT mesh_internal.is_ip(w.address) OR strpos(w.address, '%') > 0 THEN
    RETURN format('"%s" is not an IP address by which others reach the machine: give the agent one with --address', left(w.address, 100));
  ELSIF w.address::inet <<= '0.0.0.0/32' OR w.address::inet <<= '::/128' OR w.address::inet <<= '224.0.0.0/3' OR w.address::inet <<= 'ff00::/8' THEN
    RETURN format('%s is an address that nobody can connect to: give the agent another with --address', w.address);
  ELSIF w.network ~ '[[:space:][:cntrl:]]' OR char_length(w.network) > 253 THEN
    RETURN format('"%s" is not the name of a network: at most 253 characters without spaces', left(w.network, 300));
  ELSIF w.locality !~ '^([^/[:space:]]+(/[^/[:space:]]+){0,2})?$' OR char_length(w.locality) > 253 THEN
    RETURN format('"%s" is not a locality: write REGION, REGION/ZONE or REGION/ZONE/SUBZONE', left(w.locality, 300));
  ELSIF w.weight NOT BETWEEN 0 AND 4294967295 THEN
    RETURN format('%s is not a weight', w.weight);
  ELSIF octet_length(w.labels::text) > 16384 OR octet_length(w.service_labels::text) > 16384 THEN
    RETURN 'the labels of the machine have more than 16 KiB: leave some out';
  ELSIF (SELECT count(*) FROM jsonb_object_keys(w.ports)) > 100 THEN
    RETURN 'the service has more than 100 ports: leave some out';
  END IF;
  SELECT p.* INTO wrong FROM mesh_internal.check_text_map('labels', w.labels || w.service_labels, 'label') p LIMIT 1;
  IF FOUND THEN
    RETURN format('%s: %s (%s)', wrong.path, wrong.reason, wrong.hint);
  END IF;
  RETURN (SELECT format('%s is not a port, for "%s": write a number from 1 to 65535', p.value, left(p.key, 100)) FROM jsonb_each(w.ports) p
    WHERE (jsonb_typeof(p.value) = 'number' AND (p.value #>> '{}')::numeric BETWEEN 1 AND 65535) IS NOT TRUE LIMIT 1);
END $$;

-- is_full reports whether a namespace has as many machines as it may have.
CREATE OR REPLACE FUNCTION mesh_internal.is_full(namespace text) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  most bigint := mesh.setting('registered_machines_max', namespace)::bigint;
BEGIN
  RETURN most IS NOT NULL AND (SELECT count(*) FROM mesh_internal.workload_instances i WHERE i.namespace = is_full.namespace AND NOT i.has_left) >= most;
END $$;

-- take_change records what became of one service of one machine, or says why not, and which names
-- of entries that touches. The group is locked.
CREATE OR REPLACE FUNCTION mesh_internal.take_change(w mesh_internal.workload_instances, state text, OUT refused text, OUT superseded boolean, OUT touched text[])
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  was     mesh_internal.workload_instances;
  spec    jsonb;
  account text;
  known   boolean;
BEGIN
  superseded := false;
  touched := '{}';
  refused := mesh_internal.workload_mistake(w, state);
  IF refused IS NOT NULL THEN
    RETURN;
  END IF;
  SELECT * INTO was FROM mesh_internal.workload_instances i WHERE i.namespace = w.namespace AND i.workload_group = w.workload_group AND i.machine = w.machine;
  known := FOUND;
  spec := mesh_internal.workload_group(w.namespace, w.workload_group);
  account := mesh_internal.account_in(spec);
  IF account <> w.service_account AND (NOT known OR was.service_account <> w.service_account) THEN
    -- Who is not entitled to the group takes nothing from somebody who may be.
    refused := mesh_internal.wrong_account(w.namespace, w.workload_group, w.service_account, account);
  ELSIF known AND was.service_account <> w.service_account AND account IS NULL THEN
    refused := mesh_internal.no_group(w.namespace, w.workload_group);
  ELSIF known AND was.service_account = w.service_account AND (was.since, was.session) > (w.since, w.session) THEN
    superseded := true;
  ELSIF NOT known AND state = 'here' AND mesh_internal.is_full(w.namespace) THEN
    refused := format('the namespace %s has as many services of machines as it may have: remove some, or raise the setting registered_machines_max', w.namespace);
  ELSIF state = 'here' THEN
    w.address := host(w.address::inet);
    w.slot := mesh_internal.slot_in(spec, w);
    w.refused := CASE WHEN spec IS NULL THEN mesh_internal.no_group(w.namespace, w.workload_group) ELSE was.refused END;
    w.entry := CASE WHEN was.slot = w.slot THEN was.entry END;
    IF w.health = 'unknown' AND was.service_account = w.service_account AND NOT was.has_left AND was.health <> 'draining' THEN -- who does not know changes nothing
      w.health := was.health;
      w.detail := was.detail;
    END IF;
    w.has_left := false;
    w.registered_at := CASE WHEN was.has_left THEN now() ELSE coalesce(was.registered_at, now()) END;
    IF was IS DISTINCT FROM w THEN
      PERFORM mesh_internal.write_instance(w, known);
    END IF;
    touched := ARRAY[was.slot, w.slot];
  ELSIF known OR account = w.service_account THEN
    IF NOT known THEN -- what was before it may yet come
      was := w;
    ELSIF was.gone IS NOT NULL AND (was.since, was.session) = (w.since, w.session) AND was.has_left >= (state = 'left') THEN
      RETURN;
    END IF;
    touched := ARRAY[was.slot];
    was.since := w.since;
    was.session := w.session;
    was.has_left := coalesce(was.has_left, false) OR NOT known OR state = 'left';
    was.gone := coalesce(was.gone, (SELECT c.uptime FROM mesh_internal.workload_clock c WHERE c.one));
    was.gone_at := coalesce(was.gone_at, now());
    IF was.has_left THEN
      was.slot := NULL;
      was.entry := NULL;
      was.refused := NULL;
    END IF;
    was.registered_at := coalesce(was.registered_at, now());
    PERFORM mesh_internal.write_instance(was, known);
  END IF;
END $$;

CREATE OR REPLACE FUNCTION mesh_internal.write_instance(w mesh_internal.workload_instances, known boolean) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NOT known THEN
    INSERT INTO mesh_internal.workload_instances SELECT w.*;
    RETURN;
  END IF;
  UPDATE mesh_internal.workload_instances i SET
    since = w.since, session = w.session, service_account = w.service_account, enrolment = w.enrolment, address = w.address, network = w.network, locality = w.locality,
    labels = w.labels, ports = w.ports, service_labels = w.service_labels, weight = w.weight, health = w.health, detail = w.detail,
    has_left = w.has_left, gone = w.gone, gone_at = w.gone_at, slot = w.slot, entry = w.entry, refused = w.refused, registered_at = w.registered_at
  WHERE i.namespace = w.namespace AND i.workload_group = w.workload_group AND i.machine = w.machine;
END $$;

-- register_workloads takes one message of a session, as one transaction: a list of objects with the
-- columns of mesh_internal.workload_instances that machines know, and state, which is here, gone or
-- left. It answers each in its place.
CREATE OR REPLACE FUNCTION mesh_internal.register_workloads(keeper uuid, session bigint, number bigint, changes jsonb)
RETURNS TABLE (place bigint, entry text, refused text, superseded boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  change     record;
  answer     record;
  w          mesh_internal.workload_instances;
  namespaces text[] := '{}';
  slots      text[] := '{}';
  refusals   jsonb := '{}';
  late       bigint[] := '{}';
BEGIN
  PERFORM mesh_internal.require_server('register machines');
  UPDATE mesh_internal.workload_sessions s SET number = register_workloads.number, refreshed = (SELECT c.uptime FROM mesh_internal.workload_clock c WHERE c.one)
    WHERE s.id = session AND s.keeper = register_workloads.keeper AND s.ended IS NULL AND s.number < register_workloads.number;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'MS007', MESSAGE = 'the session has ended', HINT = 'open another, and tell of all machines again';
  END IF;
  PERFORM set_config('mesh.registering', (SELECT secret FROM mesh_internal.installation)::text, true);
  PERFORM set_config('lock_timeout', '15s', true); -- others may have much to tell of the same group
  PERFORM mesh_internal.lock_workload_groups(array_agg(c.value ->> 'namespace'), array_agg(c.value ->> 'workload_group')) FROM jsonb_array_elements(changes) c;
  PERFORM set_config('lock_timeout', '1s', true); -- somebody who has a name in hand is not waited for
  FOR change IN
    SELECT c.value, c.ordinality, c.value ->> 'state' AS state FROM jsonb_array_elements(changes) WITH ORDINALITY c
    ORDER BY c.value ->> 'namespace', c.value ->> 'workload_group', c.value ->> 'machine', c.ordinality
  LOOP
    w := jsonb_populate_record(NULL::mesh_internal.workload_instances, change.value);
    w.session := session;
    SELECT * INTO answer FROM mesh_internal.take_change(w, change.state);
    IF answer.refused IS NOT NULL THEN
      refusals := refusals || jsonb_build_object(change.ordinality::text, answer.refused);
    ELSIF answer.superseded THEN
      late := late || change.ordinality;
    ELSE
      namespaces := namespaces || array_fill(w.namespace, ARRAY[cardinality(answer.touched)]);
      slots := slots || answer.touched;
    END IF;
  END LOOP;
  PERFORM mesh_internal.write_workload_entries(namespaces, slots);
  RETURN QUERY
    SELECT c.ordinality, i.entry, coalesce(refusals ->> c.ordinality::text, i.refused), c.ordinality = ANY (late)
    FROM jsonb_array_elements(changes) WITH ORDINALITY c
      LEFT JOIN mesh_internal.workload_instances i ON NOT c.ordinality = ANY (late) AND NOT refusals ? c.ordinality::text AND i.namespace = c.value ->> 'namespace'
        AND i.workload_group = c.value ->> 'workload_group' AND i.machine = c.value ->> 'machine'
    ORDER BY c.ordinality;
END $$;

COMMENT ON FUNCTION mesh_internal.register_workloads IS 'Internal. Servers register machines by it.';
