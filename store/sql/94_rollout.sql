-- Which revision each proxy runs. Discoveries report it to servers, and a server writes each message
-- as one transaction. A report counts while the server that has it lives, which nobody has to write
-- again and again: the server keeps a session for it, and that an advisory lock, which goes with the
-- session. Nobody waits for the lock, and it counts only if the session of the keeper's row holds
-- it, for anybody may take such locks.

-- live_keepers lists the keepers whose sessions there are. It is called within the statement that
-- reads the tables, so that it looks at the locks after that has its snapshot: a keeper takes its
-- lock before others see its row. A standby does not know of locks, and believes in all.
CREATE OR REPLACE FUNCTION mesh_internal.live_keepers() RETURNS int[]
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF pg_is_in_recovery() THEN
    RETURN ARRAY(SELECT k.id FROM mesh_internal.report_keepers k);
  END IF;
  -- The function, for a migration locks all views, which goes on to the views that they read.
  RETURN ARRAY(SELECT k.id FROM mesh_internal.report_keepers k JOIN pg_lock_status() l ON l.pid = k.pid AND l.objid::bigint = k.id
    WHERE l.locktype = 'advisory' AND l.granted AND l.classid::bigint = 1835365225 AND l.objsubid = 2
      AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()));
END $$;

COMMENT ON FUNCTION mesh_internal.live_keepers IS 'Internal. Read mesh.proxies.';

-- keep_reports makes this session a keeper, and returns its number. The number is random, so that
-- nobody has its lock before.
CREATE OR REPLACE FUNCTION mesh_internal.keep_reports(server text) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  taken integer;
BEGIN
  PERFORM mesh_internal.require_server('report proxies');
  LOOP
    taken := floor(random() * 2147483647)::integer;
    IF pg_try_advisory_lock(1835365225, taken) THEN
      INSERT INTO mesh_internal.report_keepers (id, pid, server) VALUES (taken, pg_backend_pid(), server) ON CONFLICT (id) DO NOTHING;
      IF FOUND THEN
        RETURN taken;
      END IF;
      PERFORM pg_advisory_unlock(1835365225, taken);
    END IF;
  END LOOP;
END $$;

COMMENT ON FUNCTION mesh_internal.keep_reports IS 'Internal. Servers report proxies by it.';

-- keeps_reports tells a keeper's session whether its reports count.
CREATE OR REPLACE FUNCTION mesh_internal.keeps_reports(keeper integer) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM mesh_internal.require_server('report proxies');
  RETURN EXISTS (SELECT FROM mesh_internal.report_keepers k WHERE k.id = keeper AND k.pid = pg_backend_pid());
END $$;

COMMENT ON FUNCTION mesh_internal.keeps_reports IS 'Internal. Servers report proxies by it.';

CREATE OR REPLACE FUNCTION mesh_internal.refuse_ended_report() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = 'MS007', MESSAGE = 'the report has ended', HINT = 'begin another, and report all proxies again';
END $$;

-- begin_report begins the report of a discovery.
CREATE OR REPLACE FUNCTION mesh_internal.begin_report(keeper integer, discovery text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  begun bigint;
BEGIN
  PERFORM mesh_internal.require_server('report proxies');
  INSERT INTO mesh_internal.reports (keeper, discovery) SELECT k.id, begin_report.discovery FROM mesh_internal.report_keepers k
    WHERE k.id = begin_report.keeper AND k.id = ANY ((SELECT mesh_internal.live_keepers())::int[]) RETURNING id INTO begun;
  IF begun IS NULL THEN
    PERFORM mesh_internal.refuse_ended_report();
  END IF;
  RETURN begun;
END $$;

COMMENT ON FUNCTION mesh_internal.begin_report IS 'Internal. Servers report proxies by it.';

-- take_report takes one message of a report, as one transaction: the revision of all proxies that
-- are in step, and a list of objects with the columns of mesh_internal.reported_proxies. Those with
-- a node are new. A message that was taken already changes nothing.
CREATE OR REPLACE FUNCTION mesh_internal.take_report(keeper integer, report bigint, number bigint, revision bigint, proxies jsonb, gone bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  before  mesh_internal.reports;
  unknown bigint;
BEGIN
  PERFORM mesh_internal.require_server('report proxies');
  SELECT * INTO before FROM mesh_internal.reports r WHERE r.id = take_report.report AND r.keeper = take_report.keeper AND r.ended IS NULL FOR UPDATE;
  IF NOT FOUND OR NOT keeper = ANY (mesh_internal.live_keepers()) THEN
    PERFORM mesh_internal.refuse_ended_report();
  ELSIF take_report.number <= before.number THEN
    RETURN;
  END IF;
  INSERT INTO mesh_internal.reported_proxies AS p (report, stream, node, proxy, namespace, service_account, role, labels, locality, network, addresses,
      envoy, agent, protocol, connected, state, sent, runs, refused)
    SELECT before.id, n.stream, n.node, n.proxy, n.namespace, n.service_account, n.role, n.labels, n.locality, n.network, n.addresses,
      n.envoy, n.agent, n.protocol, least(n.connected, now()), n.state, n.sent, n.runs, n.refused
    FROM jsonb_populate_recordset(NULL::mesh_internal.reported_proxies, take_report.proxies) n WHERE n.node IS NOT NULL AND n.stream <> ALL (take_report.gone)
    ON CONFLICT ON CONSTRAINT reported_proxies_pkey DO UPDATE SET node = EXCLUDED.node, proxy = EXCLUDED.proxy, namespace = EXCLUDED.namespace,
      service_account = EXCLUDED.service_account, role = EXCLUDED.role, labels = EXCLUDED.labels, locality = EXCLUDED.locality, network = EXCLUDED.network,
      addresses = EXCLUDED.addresses, envoy = EXCLUDED.envoy, agent = EXCLUDED.agent, protocol = EXCLUDED.protocol, connected = EXCLUDED.connected,
      state = EXCLUDED.state, sent = EXCLUDED.sent, runs = EXCLUDED.runs, refused = EXCLUDED.refused, gone = NULL,
      changed = CASE WHEN p.state = EXCLUDED.state AND p.gone IS NULL THEN p.changed ELSE EXCLUDED.changed END;
  UPDATE mesh_internal.reported_proxies p SET state = n.state, sent = n.sent, runs = n.runs, refused = n.refused, changed = CASE WHEN p.state = n.state THEN p.changed ELSE now() END
    FROM jsonb_populate_recordset(NULL::mesh_internal.reported_proxies, take_report.proxies) n
    WHERE n.node IS NULL AND p.report = before.id AND p.stream = n.stream AND p.gone IS NULL AND n.stream <> ALL (take_report.gone);
  SELECT n.stream INTO unknown FROM jsonb_populate_recordset(NULL::mesh_internal.reported_proxies, take_report.proxies) n
    WHERE n.stream <> ALL (take_report.gone) AND NOT EXISTS (SELECT FROM mesh_internal.reported_proxies p WHERE p.report = before.id AND p.stream = n.stream AND p.gone IS NULL) LIMIT 1;
  IF FOUND THEN
    RAISE invalid_parameter_value USING MESSAGE = format('stream %s was not described', unknown), HINT = 'describe a proxy in the first message that has its stream';
  END IF;
  -- Who goes stays at what it ran, and moves no more with the others.
  UPDATE mesh_internal.reported_proxies p SET gone = now(), sent = coalesce(p.sent, before.revision), runs = coalesce(p.runs, before.revision)
    WHERE p.report = before.id AND p.stream = ANY (take_report.gone) AND p.gone IS NULL;
  UPDATE mesh_internal.reports r SET number = take_report.number, revision = take_report.revision WHERE r.id = before.id;
END $$;

COMMENT ON FUNCTION mesh_internal.take_report IS 'Internal. Servers report proxies by it.';

-- end_reports ends a report of a keeper, or all of them, with which its session keeps no more. Their
-- proxies are away from then on.
CREATE OR REPLACE FUNCTION mesh_internal.end_reports(keeper integer, report bigint DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM mesh_internal.require_server('report proxies');
  UPDATE mesh_internal.reports r SET ended = now() WHERE r.keeper = end_reports.keeper AND r.id = coalesce(end_reports.report, r.id) AND r.ended IS NULL;
  IF end_reports.report IS NULL THEN
    PERFORM pg_advisory_unlock(1835365225, end_reports.keeper);
  END IF;
END $$;

COMMENT ON FUNCTION mesh_internal.end_reports IS 'Internal. Servers report proxies by it.';

-- sweep_reports notes which reports count no more, and removes the proxies that have been away for
-- so long, or that another report has. It returns how many rows it removed, waits for nobody, and
-- writes nothing where there is nothing to do.
CREATE OR REPLACE FUNCTION mesh_internal.sweep_reports(age interval) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  removed bigint;
  emptied bigint;
BEGIN
  PERFORM mesh_internal.require_server('report proxies');
  UPDATE mesh_internal.reports r SET ended = now() WHERE r.id IN (
    SELECT o.id FROM mesh_internal.reports o WHERE o.ended IS NULL AND o.keeper <> ALL ((SELECT mesh_internal.live_keepers())::int[]) FOR UPDATE SKIP LOCKED);
  DELETE FROM mesh_internal.reported_proxies p USING (
      SELECT o.report, o.stream FROM mesh_internal.reported_proxies o JOIN mesh_internal.reports r ON r.id = o.report
      WHERE (o.gone IS NOT NULL OR r.ended IS NOT NULL)
        AND (least(o.gone, r.ended) < now() - age OR EXISTS (
          SELECT FROM mesh_internal.reported_proxies n JOIN mesh_internal.reports s ON s.id = n.report
          WHERE n.namespace = o.namespace AND n.proxy = o.proxy AND n.gone IS NULL AND s.ended IS NULL))
      FOR UPDATE OF o SKIP LOCKED) due
    WHERE p.report = due.report AND p.stream = due.stream;
  GET DIAGNOSTICS removed = ROW_COUNT;
  DELETE FROM mesh_internal.reports r WHERE r.id IN (SELECT o.id FROM mesh_internal.reports o WHERE o.ended IS NOT NULL
    AND NOT EXISTS (SELECT FROM mesh_internal.reported_proxies p WHERE p.report = o.id) FOR UPDATE SKIP LOCKED);
  GET DIAGNOSTICS emptied = ROW_COUNT;
  removed := removed + emptied;
  DELETE FROM mesh_internal.report_keepers k WHERE k.id IN (SELECT o.id FROM mesh_internal.report_keepers o
    WHERE o.id <> ALL ((SELECT mesh_internal.live_keepers())::int[]) AND NOT EXISTS (SELECT FROM mesh_internal.reports r WHERE r.keeper = o.id) FOR UPDATE SKIP LOCKED);
  GET DIAGNOSTICS emptied = ROW_COUNT;
  RETURN removed + emptied;
END $$;

COMMENT ON FUNCTION mesh_internal.sweep_reports IS 'Internal. Servers report proxies by it.';

CREATE OR REPLACE VIEW mesh.proxies WITH (security_barrier) AS
  SELECT DISTINCT ON (p.namespace, p.proxy)
    p.namespace, p.proxy, p.node, p.role, p.service_account, p.labels, p.locality, p.network, p.addresses, p.envoy, p.agent, p.protocol, r.discovery, k.server, p.connected,
    CASE WHEN l.here THEN p.state ELSE 'away' END AS state, nullif(coalesce(p.sent, r.revision), 0) AS sent, nullif(coalesce(p.runs, r.revision), 0) AS runs,
    p.refused, p.changed, least(p.gone, r.ended) AS gone
  FROM mesh_internal.reported_proxies p JOIN mesh_internal.reports r ON r.id = p.report JOIN mesh_internal.report_keepers k ON k.id = r.keeper,
    LATERAL (SELECT p.gone IS NULL AND r.ended IS NULL AND k.id = ANY ((SELECT mesh_internal.live_keepers())::int[]) AS here) l
  WHERE (SELECT mesh_internal.sees_all()) OR p.namespace = ANY ((SELECT mesh_internal.readable_namespaces())::text[])
  ORDER BY p.namespace, p.proxy, l.here DESC, p.connected DESC, p.report DESC, p.stream DESC;

COMMENT ON VIEW mesh.proxies IS 'The proxies of the mesh and which revision each of them runs, as their discoveries report it: connected ones, and those away for less than ten minutes. A proxy with several streams is shown once, by the newest.';
COMMENT ON COLUMN mesh.proxies.namespace IS 'The namespace of the proxy.';
COMMENT ON COLUMN mesh.proxies.proxy IS 'Its id in the namespace.';
COMMENT ON COLUMN mesh.proxies.node IS 'The node id by which Envoy names itself.';
COMMENT ON COLUMN mesh.proxies.role IS 'sidecar or router.';
COMMENT ON COLUMN mesh.proxies.service_account IS 'The service account, as in its certificate; without certificates, by its word.';
COMMENT ON COLUMN mesh.proxies.labels IS 'Its labels, an object of strings. Those beyond 16 KiB are left out.';
COMMENT ON COLUMN mesh.proxies.locality IS 'The locality, as REGION/ZONE/SUBZONE.';
COMMENT ON COLUMN mesh.proxies.network IS 'The network of its addresses.';
COMMENT ON COLUMN mesh.proxies.addresses IS 'Its addresses.';
COMMENT ON COLUMN mesh.proxies.envoy IS 'The version of Envoy.';
COMMENT ON COLUMN mesh.proxies.agent IS 'The version of its mesh-agent; empty without one.';
COMMENT ON COLUMN mesh.proxies.protocol IS 'How it takes configuration: delta or sotw.';
COMMENT ON COLUMN mesh.proxies.discovery IS 'The discovery that it is connected to, or last was.';
COMMENT ON COLUMN mesh.proxies.server IS 'The mcp-server that the discovery reports to.';
COMMENT ON COLUMN mesh.proxies.connected IS 'When its stream to the discovery began.';
COMMENT ON COLUMN mesh.proxies.state IS 'synced: it runs what it was sent; sending: something is on its way; refused: it refuses some of what it was sent, and runs the rest; silent: it has not answered for long; away: it is not connected, or nobody knows whether it is.';
COMMENT ON COLUMN mesh.proxies.sent IS 'The revision that it was sent last; NULL for none yet.';
COMMENT ON COLUMN mesh.proxies.runs IS 'The revision that it runs; NULL for none yet. Of a proxy that is away, the last that is known.';
COMMENT ON COLUMN mesh.proxies.refused IS 'How many resources it refuses.';
COMMENT ON COLUMN mesh.proxies.changed IS 'Since when it is in this state; of a proxy that is away, in the state before.';
COMMENT ON COLUMN mesh.proxies.gone IS 'Since when it is away; NULL while it is not, and until it was noticed that the server that knew of it is gone.';

CREATE OR REPLACE FUNCTION mesh.runs_at(revision bigint) RETURNS SETOF mesh.proxies
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT p.* FROM mesh.proxies p WHERE p.state <> 'away' AND coalesce(p.runs, 0) >= runs_at.revision
$$;

COMMENT ON FUNCTION mesh.runs_at IS 'Lists the connected proxies that run a revision or a later one, as in mesh.proxies.';
