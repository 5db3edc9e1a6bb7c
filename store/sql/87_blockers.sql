-- Who holds up the mesh: sessions that others wait for, and that keep the queue of notifications from emptying.

-- find_blockers looks at the sessions of this database. What other roles' sessions do is hidden from an owner that is not a member of
-- pg_read_all_stats; who waits for whom is not.
CREATE OR REPLACE FUNCTION mesh.find_blockers()
RETURNS TABLE (pid int, role text, application text, client text, state text, since timestamptz, reason text, waiting int, waited interval, query text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
BEGIN
  IF NOT mesh.speaks_for_others() THEN
    RETURN;
  END IF;
  RETURN QUERY
    WITH waiters AS MATERIALIZED ( -- a lock bears the time of its wait from Postgres 14 on
      SELECT l.pid, min(coalesce((to_jsonb(l) ->> 'waitstart')::timestamptz, a.query_start)) AS start,
        min(CASE WHEN c.relnamespace = 'mesh'::regnamespace THEN 'mesh.' || c.relname END) AS relation
      FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid LEFT JOIN pg_class c ON c.oid = l.relation
      WHERE NOT l.granted AND a.datname = current_database()
        AND EXISTS (SELECT FROM pg_locks o JOIN pg_class r ON r.oid = o.relation WHERE o.pid = l.pid AND r.relnamespace = 'mesh'::regnamespace)
      GROUP BY l.pid
    ), blocking AS (
      SELECT b.pid, count(*)::int AS waiting, max(clock_timestamp() - w.start) AS waited, min(w.relation) AS relation
      FROM waiters w, unnest(pg_blocking_pids(w.pid)) b (pid)
      WHERE b.pid NOT IN (SELECT o.pid FROM waiters o) -- who waits as well is not the one to end
      GROUP BY b.pid
    ), silent AS (
      SELECT a.pid FROM pg_stat_activity a
      WHERE mesh.notification_queue_usage() >= 0.25 AND a.datname = current_database() AND a.pid <> pg_backend_pid()
        AND (a.xact_start < clock_timestamp() - interval '1 second' OR a.xact_start IS NULL AND a.backend_type IS NULL)
    )
    SELECT a.pid, a.usename::text, a.application_name, host(a.client_addr), a.state, a.xact_start,
      CASE WHEN b.pid IS NULL THEN format('it may keep the queue of notifications from emptying, which is %s %% full', round((mesh.notification_queue_usage() * 100)::numeric))
        WHEN b.relation IS NULL THEN format('%s sessions wait for what it has changed', b.waiting)
        ELSE format('%s sessions wait for its lock on %s', b.waiting, b.relation) END,
      coalesce(b.waiting, 0), b.waited, left(a.query, 200)
    FROM (SELECT u.pid FROM blocking u UNION SELECT u.pid FROM silent u) p
      LEFT JOIN blocking b ON b.pid = p.pid JOIN pg_stat_activity a ON a.pid = p.pid;
END $$;

CREATE OR REPLACE VIEW mesh.blockers AS SELECT * FROM mesh.find_blockers();

COMMENT ON VIEW mesh.blockers IS 'The sessions that others of the mesh wait for, and those that keep the queue of notifications from emptying. For the owner and servers.';
COMMENT ON COLUMN mesh.blockers.since IS 'When its transaction began; NULL where the owner is not a member of pg_read_all_stats and may not see it.';
COMMENT ON COLUMN mesh.blockers.waiting IS 'How many sessions wait for it.';
COMMENT ON COLUMN mesh.blockers.waited IS 'How long the first of them has waited.';

-- end_blocker ends a session, as long as it is in the way.
CREATE OR REPLACE FUNCTION mesh.end_blocker(pid int) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM mesh.require_server('end sessions');
  IF NOT EXISTS (SELECT FROM mesh.find_blockers() b WHERE b.pid = end_blocker.pid) THEN
    RAISE invalid_parameter_value USING MESSAGE = format('nobody waits for the session %s', pid), HINT = 'mesh.blockers lists those that are in the way';
  END IF;
  BEGIN
    RETURN pg_terminate_backend(pid);
  EXCEPTION WHEN insufficient_privilege THEN
    RAISE insufficient_privilege USING MESSAGE = format('the role %s may not end the session %s', quote_ident(current_user), pid),
      HINT = format('have a superuser run: GRANT pg_signal_backend TO %s', quote_ident(current_user));
  END;
END $$;

COMMENT ON FUNCTION mesh.end_blocker IS 'Ends a session that mesh.blockers lists. It takes pg_signal_backend, or membership in the role of that session.';
