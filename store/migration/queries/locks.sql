-- fragment: MigrationLock
-- This is "mesh" in ASCII, and number two of our locks; number one was formerly taken at commit.
1835365224, 2

-- fragment: CouldMigrate
-- The condition that the role of a session could migrate the schema: it is a member of the owner or, without
-- a schema, may create one.
coalesce((SELECT pg_has_role(a.usesysid, n.nspowner, 'MEMBER') FROM pg_namespace n WHERE n.nspname = 'mesh'), has_database_privilege(a.usesysid, current_database(), 'CREATE'))

-- fragment: LockHolders
SELECT coalesce(string_agg(h.name, ', ') FILTER (WHERE h.could), ''), coalesce(string_agg(h.name, ', ') FILTER (WHERE NOT h.could), '')
FROM (SELECT format('session %s of the role %s', a.pid, quote_ident(a.usename)) AS name, {{CouldMigrate}} AS could
  FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
  WHERE l.locktype = 'advisory' AND l.granted AND (l.classid, l.objid, l.objsubid) = ({{MigrationLock}}, 2)
    AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())) h

-- name: TryMigrationLock
-- Takes the lock of those that migrate, unless another session has it.
SELECT pg_try_advisory_lock({{MigrationLock}})

-- name: FreeMigrationLock
-- Gives the lock back, as often as the session took it.
SELECT pg_advisory_unlock_all()

-- name: MigrationHolders
-- The sessions with the lock that could migrate, and those that could not.
{{LockHolders}}

-- name: WaitsBefore
-- A session of one of two names that could migrate, and connected before this one.
SELECT coalesce((SELECT format('session %s of the role %s', a.pid, quote_ident(a.usename)) FROM pg_stat_activity a, pg_stat_activity own
  WHERE own.pid = pg_backend_pid() AND a.datname = current_database() AND a.application_name IN ($1, $2) AND (a.backend_start, a.pid) < (own.backend_start, own.pid)
    AND {{CouldMigrate}} ORDER BY a.backend_start, a.pid LIMIT 1), '')

-- name: Migrates
-- A session of that name that could migrate, the first of them, and whether it connected before this one.
SELECT coalesce(max(m.name), ''), coalesce(bool_or(m.before), false) FROM (
  SELECT format('session %s of the role %s', a.pid, quote_ident(a.usename)) AS name, (a.backend_start, a.pid) < (own.backend_start, own.pid) AS before
  FROM pg_stat_activity a, pg_stat_activity own
  WHERE own.pid = pg_backend_pid() AND a.pid <> own.pid AND a.datname = current_database() AND a.application_name = $1 AND {{CouldMigrate}}
  ORDER BY a.backend_start, a.pid LIMIT 1) m

-- name: CallSession
-- Gives the session a name, which others see.
SELECT set_config('application_name', $1, false)

-- name: ScriptsTurn
-- Makes a script fail while a program migrates. It does not wait for others that hold the lock.
DO $$ BEGIN IF NOT pg_try_advisory_xact_lock({{MigrationLock}}) AND (SELECT h.could <> '' FROM ({{LockHolders}}) AS h (could)) THEN
  RAISE object_in_use USING MESSAGE = 'a program migrates this database', HINT = 'run the script when it is done'; END IF; END $$;

-- fragment: Schemas
-- The schemas of the mesh. The second one is not there before version 39.
SELECT oid FROM pg_catalog.pg_namespace WHERE nspname IN ('mesh', 'mesh_internal')

-- fragment: Holders
SELECT coalesce(string_agg(format('%s (pid %s%s)', coalesce(nullif(application_name, ''), 'a session'), pid,
  CASE WHEN xact_start IS NOT NULL THEN format(', for %s s', round(extract(epoch FROM clock_timestamp() - xact_start))) END), ', ' ORDER BY xact_start), 'nobody now')
FROM (SELECT DISTINCT a.* FROM pg_catalog.pg_stat_activity a JOIN pg_catalog.pg_locks l USING (pid)
  JOIN pg_catalog.pg_class c ON c.oid = l.relation AND c.relnamespace IN ({{Schemas}}) AND c.relkind IN ('r', 'v')
  WHERE l.granted AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
    AND pid <> pg_backend_pid() ORDER BY a.xact_start LIMIT 5) a

-- name: RelationHolders
-- The sessions that hold locks on the tables, the oldest first.
{{Holders}}

-- name: LockEverything
-- Locks all tables and views of the mesh, so that a transaction can change them while others use them. It takes
-- views first, as everybody's statements do, and tables after. It waits for less than a second, for others wait behind
-- it, and Postgres looks for deadlocks after one second and might end another's transaction. Then it gives everything
-- back, lets others go on, and tries again: it first takes what those hold who waited for it, so that next time they
-- wait holding nothing. A view is locked by a change of owner that changes nothing, as LOCK would also lock the tables
-- below it.
DO $$
DECLARE
  wanted   oid[] := ARRAY(SELECT c.oid FROM pg_catalog.pg_class c WHERE c.relnamespace IN ({{Schemas}}) AND c.relkind IN ('r', 'v')
    ORDER BY c.relkind = 'r', c.oid);
  was      text := current_setting('lock_timeout');
  patience double precision := 50; -- milliseconds
  told     timestamptz := clock_timestamp();
  begun    timestamptz;
  next     record;
  waiting  oid[];
  holders  text;
BEGIN
  LOOP
    BEGIN
      begun := clock_timestamp();
      FOR next IN SELECT format(CASE c.relkind WHEN 'v' THEN 'ALTER VIEW %s OWNER TO %I' ELSE 'LOCK TABLE %s IN ACCESS EXCLUSIVE MODE' END, c.oid::regclass, pg_get_userbyid(c.relowner)) AS statement
        FROM unnest(wanted) WITH ORDINALITY w (oid, n) JOIN pg_catalog.pg_class c USING (oid) ORDER BY n
      LOOP
        PERFORM set_config('lock_timeout', ceil(greatest(1, patience - 1000 * extract(epoch FROM clock_timestamp() - begun)))::text, true);
        BEGIN
          EXECUTE next.statement;
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
          PERFORM pg_stat_clear_snapshot();
          -- Here we still have the locks taken so far. Who waits for one of them and holds others is in our way.
          waiting := ARRAY(SELECT DISTINCT h.relation FROM pg_catalog.pg_locks h JOIN pg_catalog.pg_locks w USING (pid)
            WHERE h.granted AND NOT w.granted AND h.relation = ANY (wanted) AND h.pid <> pg_backend_pid());
          holders := ({{Holders}});
          RAISE lock_not_available;
        END;
      END LOOP;
      PERFORM set_config('lock_timeout', was, true);
      RETURN;
    EXCEPTION WHEN lock_not_available THEN
      NULL; -- all locks are given back
    END;
    IF waiting = '{}' THEN
      patience := least(2 * patience, 700);
    ELSE
      waiting := coalesce((SELECT array_agg(c.oid) FROM pg_catalog.pg_class c WHERE c.oid = ANY (waiting) AND c.relkind = 'v'), waiting);
      wanted := ARRAY(SELECT w.oid FROM unnest(wanted) WITH ORDINALITY w (oid, n) ORDER BY w.oid <> ALL (waiting), w.n);
    END IF;
    IF clock_timestamp() > told + interval '1 second' THEN
      told := clock_timestamp();
      RAISE WARNING USING ERRCODE = 'lock_not_available', MESSAGE = 'waiting for others who use the tables: ' || holders;
    END IF;
    -- The random part keeps two that wait for each other from trying in step.
    PERFORM pg_sleep((1 + random()) * greatest(0.05, extract(epoch FROM clock_timestamp() - begun)));
  END LOOP;
END $$
