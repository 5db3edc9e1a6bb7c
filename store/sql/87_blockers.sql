-- Who keeps others waiting in the mesh, and how to end that. Postgres tells everybody about locks
-- and who waits for whom. What a session of another role does, and since when, only members of
-- pg_read_all_stats learn; for others those columns are NULL.

-- blocking lists the sessions that others wait for, and those that may keep notifications from
-- being sent. The whole server has one queue of notifications, and the oldest transaction of any
-- listener, in any database, holds its end. Nobody can ask which sessions listen.
CREATE OR REPLACE FUNCTION mesh_internal.blocking()
RETURNS TABLE (reason text, pid int, role text, database text, application text, client text, state text, since timestamptz, waiting_since timestamptz,
  blocks int[], query text, server boolean, transaction text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  full_queue boolean := mesh_internal.notification_queue_usage() >= 0.25;
BEGIN
  IF NOT mesh_internal.speaks_for_others() THEN
    RETURN;
  END IF;
  RETURN QUERY
  WITH RECURSIVE locks AS MATERIALIZED (SELECT l.*, (to_jsonb(l) ->> 'waitstart')::timestamptz AS waits_since FROM pg_locks l), -- there is none before Postgres 14
  stuck AS MATERIALIZED (
    SELECT l.pid, min(l.waits_since) AS since, EXISTS (
        SELECT FROM locks m JOIN pg_class c ON c.oid = m.relation
        WHERE m.pid = l.pid AND m.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()) AND c.relnamespace = ANY ('{mesh,mesh_internal}'::regnamespace[])) AS ours
    FROM locks l WHERE NOT l.granted GROUP BY l.pid),
  edges AS MATERIALIZED (SELECT s.pid AS waiter, b AS blocker FROM stuck s, unnest(pg_blocking_pids(s.pid)) b),
  chains AS (
    SELECT e.waiter, e.blocker FROM edges e JOIN stuck s ON s.pid = e.waiter AND s.ours
    UNION
    SELECT c.waiter, e.blocker FROM chains c JOIN edges e ON e.waiter = c.blocker),
  roots AS (
    SELECT 'lock' AS reason, c.blocker AS pid, array_agg(DISTINCT c.waiter) AS blocks, min(coalesce(s.since, a.query_start)) AS waiting_since
    FROM chains c JOIN stuck s ON s.pid = c.waiter LEFT JOIN pg_stat_activity a ON a.pid = c.waiter
    WHERE c.blocker NOT IN (SELECT pid FROM stuck) GROUP BY c.blocker
    UNION ALL
    SELECT 'queue', l.pid, '{}', NULL FROM locks l JOIN pg_stat_activity a USING (pid)
    WHERE full_queue AND l.locktype = 'virtualxid' AND l.granted AND l.virtualxid = l.virtualtransaction
      AND l.pid <> pg_backend_pid() AND coalesce(a.xact_start < clock_timestamp() - interval '2 s', true)
    UNION ALL
    SELECT 'idle', a.pid, '{}', NULL FROM pg_stat_activity a
    WHERE a.datname = current_database() AND a.state LIKE 'idle in transaction%' AND a.state_change < clock_timestamp() - interval '15 min'),
  worst AS (SELECT DISTINCT ON (r.pid) r.* FROM roots r ORDER BY r.pid, array_position('{lock,queue,idle}', r.reason))
  SELECT w.reason, w.pid, a.usename::text, a.datname::text, CASE WHEN w.pid = 0 THEN 'a prepared transaction' ELSE a.application_name END,
    host(a.client_addr), a.state, a.xact_start, w.waiting_since, w.blocks,
    nullif(left(regexp_replace(a.query, '[[:cntrl:]]+', ' ', 'g'), 200), '<insufficient privilege>'), mesh_internal.is_server(a.usename),
    (SELECT l.virtualtransaction FROM locks l WHERE l.pid = w.pid AND l.locktype = 'virtualxid' AND l.granted AND l.virtualxid = l.virtualtransaction LIMIT 1)
  FROM worst w LEFT JOIN pg_stat_activity a USING (pid)
  ORDER BY array_position('{lock,queue,idle}', w.reason), a.xact_start, w.pid;
END $$;

-- is_server reports whether a role may act as a server: it owns the mesh, or was made one.
CREATE OR REPLACE FUNCTION mesh_internal.is_server(login name) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN to_regrole(quote_ident(login)) IS NOT NULL AND (pg_has_role(login, current_user, 'USAGE') OR EXISTS (
    SELECT FROM mesh_internal.every_grant g WHERE g.privilege = 'server' AND pg_has_role(login, g.role_id, 'USAGE') AND g.held));
END $$;

CREATE OR REPLACE VIEW mesh.blockers WITH (security_barrier) AS SELECT * FROM mesh_internal.blocking();

COMMENT ON VIEW mesh.blockers IS 'The sessions that others wait for in the mesh. For owners and servers; SELECT mesh.end_blocker(pid) ends one.';
COMMENT ON COLUMN mesh.blockers.reason IS 'lock: others wait for what it has locked; queue: notifications pile up, perhaps because of its transaction; idle: its transaction has done nothing for a quarter of an hour, and holds back vacuum.';
COMMENT ON COLUMN mesh.blockers.pid IS 'The process of the session; 0 for a prepared transaction.';
COMMENT ON COLUMN mesh.blockers.role IS 'The role that connected.';
COMMENT ON COLUMN mesh.blockers.database IS 'The database it is connected to.';
COMMENT ON COLUMN mesh.blockers.application IS 'Its application_name.';
COMMENT ON COLUMN mesh.blockers.client IS 'The address of the client.';
COMMENT ON COLUMN mesh.blockers.state IS 'What it is doing, as in pg_stat_activity.';
COMMENT ON COLUMN mesh.blockers.since IS 'When its transaction began. For other roles, only members of pg_read_all_stats learn this, the state, the client and the query.';
COMMENT ON COLUMN mesh.blockers.waiting_since IS 'Since when somebody has been waiting for it.';
COMMENT ON COLUMN mesh.blockers.blocks IS 'The pids of those that wait for it, directly or through others.';
COMMENT ON COLUMN mesh.blockers.query IS 'The beginning of its last query.';
COMMENT ON COLUMN mesh.blockers.server IS 'Whether its role may act as a server of the mesh.';
COMMENT ON COLUMN mesh.blockers.transaction IS 'Identifies its transaction among those of the same session.';
-- end_blocker ends a session while mesh.blockers has it, and, if a transaction is given, only in
-- that one. It leaves a server at work alone, unless it stopped in the middle of a transaction.
CREATE OR REPLACE FUNCTION mesh.end_blocker(pid int, transaction text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  who record;
BEGIN
  PERFORM mesh_internal.require_server('end sessions of others');
  SELECT b.* INTO who FROM mesh_internal.blocking() b
    WHERE b.pid = end_blocker.pid AND (end_blocker.transaction IS NULL OR b.transaction = end_blocker.transaction);
  IF NOT FOUND THEN
    RAISE invalid_parameter_value USING MESSAGE = format('nobody waits for the session %s', end_blocker.pid), HINT = 'mesh.blockers has those that do';
  ELSIF who.pid = 0 THEN
    RAISE invalid_parameter_value USING MESSAGE = 'it is a prepared transaction, which has no session', HINT = 'pg_prepared_xacts has its gid: run ROLLBACK PREPARED with that';
  ELSIF who.server AND (who.state LIKE 'idle in transaction%') IS NOT TRUE THEN
    RAISE invalid_parameter_value USING MESSAGE = format('the session %s is at work for the role %s, which may be a server', who.pid, quote_ident(who.role)),
      HINT = format('wait; if it is no server, SELECT pg_terminate_backend(%s) as that role', who.pid);
  END IF;
  PERFORM pg_terminate_backend(who.pid);
EXCEPTION WHEN insufficient_privilege THEN
  IF who IS NULL THEN
    RAISE;
  END IF;
  RAISE insufficient_privilege USING MESSAGE = format('the role %s may not end sessions of the role %s', quote_ident(current_user), quote_ident(who.role)),
    HINT = format('have a superuser run GRANT pg_signal_backend TO %s; sessions of superusers only superusers end: SELECT pg_terminate_backend(%s)', quote_ident(current_user), who.pid);
END $$;

COMMENT ON FUNCTION mesh.end_blocker IS 'Ends a session of mesh.blockers, by its pid. The owner of the mesh must be a member of the role of that session, or of pg_signal_backend.';
