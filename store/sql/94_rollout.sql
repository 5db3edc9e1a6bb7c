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

-- trim_rollouts removes the rollouts beyond the newest thousand of a report.
CREATE OR REPLACE FUNCTION mesh_internal.trim_rollouts(of bigint) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  removed bigint;
BEGIN
  DELETE FROM mesh_internal.report_rollouts x WHERE x.report = of AND x.revision <= (
    SELECT o.revision FROM mesh_internal.report_rollouts o WHERE o.report = of ORDER BY o.revision DESC OFFSET 1000 LIMIT 1);
  GET DIAGNOSTICS removed = ROW_COUNT;
  RETURN removed;
END $$;

-- sweep_rollouts removes the rollouts that nobody is shown any more: those of long ago, and those
-- that a discovery has reported again since. It also removes what reports that count no more have
-- brought besides proxies and rollouts.
CREATE OR REPLACE FUNCTION mesh_internal.sweep_rollouts() RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  removed bigint;
  ended   bigint[] := ARRAY(SELECT r.id FROM mesh_internal.reports r WHERE r.ended IS NOT NULL);
BEGIN
  DELETE FROM mesh_internal.report_rollouts x USING (
      SELECT o.report, o.revision FROM mesh_internal.report_rollouts o JOIN mesh_internal.reports r ON r.id = o.report
      WHERE o.began < now() - interval '1 hour' OR r.ended IS NOT NULL AND EXISTS (
        SELECT FROM mesh_internal.reports n JOIN mesh_internal.report_rollouts m ON m.report = n.id
        WHERE n.discovery = r.discovery AND n.id > r.id AND m.revision = o.revision AND m.after = o.after)
      FOR UPDATE OF o SKIP LOCKED) due
    WHERE x.report = due.report AND x.revision = due.revision;
  GET DIAGNOSTICS removed = ROW_COUNT;
  removed := removed + coalesce((SELECT sum(mesh_internal.trim_rollouts(r.id)) FROM mesh_internal.reports r), 0);
  DELETE FROM mesh_internal.report_audiences a WHERE a.report = ANY (ended);
  DELETE FROM mesh_internal.report_versions v WHERE v.report = ANY (ended);
  DELETE FROM mesh_internal.report_problems p WHERE p.report = ANY (ended);
  DELETE FROM mesh_internal.report_times t WHERE t.report = ANY (ended);
  RETURN removed;
END $$;

-- sweep_reports notes which reports count no more, and removes the proxies that have been away for
-- so long, or that another report has, old rollouts, and registries that nobody mirrors. It returns
-- how many rows it removed, waits for nobody, and writes nothing where there is nothing to do.
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
  removed := removed + mesh_internal.sweep_rollouts() + mesh_internal.sweep_registries('1 hour');
  DELETE FROM mesh_internal.reports r WHERE r.id IN (SELECT o.id FROM mesh_internal.reports o WHERE o.ended IS NOT NULL
    AND NOT EXISTS (SELECT FROM mesh_internal.reported_proxies p WHERE p.report = o.id)
    AND NOT EXISTS (SELECT FROM mesh_internal.report_rollouts x WHERE x.report = o.id) FOR UPDATE SKIP LOCKED);
  GET DIAGNOSTICS emptied = ROW_COUNT;
  removed := removed + emptied;
  DELETE FROM mesh_internal.report_keepers k WHERE k.id IN (SELECT o.id FROM mesh_internal.report_keepers o
    WHERE o.id <> ALL ((SELECT mesh_internal.live_keepers())::int[]) AND NOT EXISTS (SELECT FROM mesh_internal.reports r WHERE r.keeper = o.id) FOR UPDATE SKIP LOCKED);
  GET DIAGNOSTICS emptied = ROW_COUNT;
  RETURN removed + emptied;
END $$;

COMMENT ON FUNCTION mesh_internal.sweep_reports IS 'Internal. Servers report proxies by it.';
