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

-- name: MigrationHolders
-- The sessions with the lock that could migrate, and those that could not.
{{LockHolders}}

-- name: MigratesBefore
-- A migrating session that connected before this one.
SELECT coalesce((SELECT format('session %s of the role %s', a.pid, quote_ident(a.usename)) FROM pg_stat_activity a, pg_stat_activity own
  WHERE own.pid = pg_backend_pid() AND a.datname = current_database() AND a.application_name = own.application_name AND (a.backend_start, a.pid) < (own.backend_start, own.pid)
    AND {{CouldMigrate}} ORDER BY a.backend_start LIMIT 1), '')

-- name: ScriptsTurn
-- Makes a script fail while a program migrates. It does not wait for others that hold the lock.
DO $$ BEGIN IF NOT pg_try_advisory_xact_lock({{MigrationLock}}) AND (SELECT h.could <> '' FROM ({{LockHolders}}) AS h (could)) THEN
  RAISE object_in_use USING MESSAGE = 'a program migrates this database', HINT = 'run the script when it is done'; END IF; END $$;

-- fragment: Schemas
-- The schemas of the mesh. The second one is not there before version 39.
SELECT oid FROM pg_catalog.pg_namespace WHERE nspname IN ('mesh', 'mesh_internal')

-- name: Relations
-- The tables and views of the mesh, as a list for LOCK. Its order is one of two for resources and views.
SELECT string_agg(format('%s.%I', relnamespace::regnamespace, relname), ', ' ORDER BY (relname = 'resources') = $1, (relkind = 'v') = $1, oid)
FROM pg_catalog.pg_class WHERE relnamespace IN ({{Schemas}}) AND relkind IN ('r', 'v')

-- name: RelationHolders
-- The sessions that hold locks on the tables, the oldest first.
SELECT coalesce(string_agg(format('%s (pid %s, for %s s)', coalesce(nullif(application_name, ''), 'a session'), pid,
  round(extract(epoch FROM clock_timestamp() - xact_start))), ', ' ORDER BY xact_start), 'nobody now')
FROM (SELECT DISTINCT a.* FROM pg_catalog.pg_stat_activity a JOIN pg_catalog.pg_locks l USING (pid)
  JOIN pg_catalog.pg_class c ON c.oid = l.relation AND c.relnamespace IN ({{Schemas}}) AND c.relkind IN ('r', 'v')
  WHERE l.granted AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
    AND pid <> pg_backend_pid() ORDER BY a.xact_start LIMIT 5) a
