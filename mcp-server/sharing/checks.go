package sharing

// commonTables are the common table expressions of all checks: the owner of the mesh, and tenants,
// the roles that may log in and have grants on namespaces only.
const commonTables = `
WITH lord AS (SELECT o.oid, o.rolname FROM pg_namespace n JOIN pg_roles o ON o.oid = n.nspowner WHERE n.nspname = 'mesh'),
granted AS (
  SELECT g.role_id AS role, bool_or(g.privilege = 'server') AS server FROM mesh_internal.every_grant g WHERE g.held AND NOT g.secrets GROUP BY g.role_id),
tenants AS (
  SELECT r.oid, r.rolname, r.rolsuper, r.rolbypassrls, r.rolconnlimit FROM pg_roles r
  WHERE r.rolcanlogin AND r.oid <> (SELECT oid FROM lord)
    AND EXISTS (SELECT FROM granted g WHERE NOT g.server AND (g.role = r.oid OR NOT r.rolsuper AND pg_has_role(r.oid, g.role, 'MEMBER')))
    AND NOT EXISTS (SELECT FROM granted g WHERE g.server AND (g.role = r.oid OR NOT r.rolsuper AND pg_has_role(r.oid, g.role, 'MEMBER')))),
configured AS (
  SELECT s.setrole AS role, s.setdatabase AS database, split_part(c, '=', 1) AS name, substr(c, strpos(c, '=') + 1) AS value
  FROM pg_db_role_setting s, unnest(s.setconfig) c)
`

// checks are all checks, the most severe first.
var checks = []check{
	{Error, "Whoever is a superuser, passes row-level security or is a member of the owner may do everything with the mesh, whatever it was granted.", `
SELECT format('the tenant %I %s', t.rolname, CASE WHEN t.rolsuper THEN 'is a superuser' WHEN t.rolbypassrls THEN 'passes row-level security' ELSE 'is a member of the owner' END),
  CASE WHEN t.rolsuper THEN format('ALTER ROLE %I NOSUPERUSER', t.rolname) WHEN t.rolbypassrls THEN format('ALTER ROLE %I NOBYPASSRLS', t.rolname)
    ELSE format('REVOKE %I FROM %I', l.rolname, t.rolname) END
FROM tenants t, lord l WHERE t.rolsuper OR t.rolbypassrls OR pg_has_role(t.oid, l.oid, 'MEMBER') ORDER BY t.rolname`},
	{Error, "Who may create functions and tables in the schema can have the mesh's own statements call them, and who owns one changes it.", `
SELECT format('%s may create in the schema %s', coalesce(quote_ident(r.rolname), 'everybody'), n.nspname), format('REVOKE CREATE ON SCHEMA %s FROM %s', n.nspname, coalesce(quote_ident(r.rolname), 'PUBLIC'))
FROM pg_namespace n, aclexplode(n.nspacl) a LEFT JOIN pg_roles r ON r.oid = a.grantee
WHERE n.nspname IN ('mesh', 'mesh_internal') AND a.privilege_type = 'CREATE' AND a.grantee <> n.nspowner
UNION ALL
SELECT format('%s belongs to %I, who does not own the schema', c.oid::regclass, r.rolname), format('ALTER TABLE %s OWNER TO %I', c.oid::regclass, l.rolname)
FROM pg_class c JOIN pg_roles r ON r.oid = c.relowner, lord l WHERE c.relnamespace = ANY ('{mesh,mesh_internal}'::regnamespace[]) AND c.relkind IN ('r', 'v') AND c.relowner <> l.oid
UNION ALL
SELECT format('%s belongs to %I, who does not own the schema', p.oid::regprocedure, r.rolname), format('ALTER FUNCTION %s OWNER TO %I', p.oid::regprocedure, l.rolname)
FROM pg_proc p JOIN pg_roles r ON r.oid = p.proowner, lord l WHERE p.pronamespace = ANY ('{mesh,mesh_internal}'::regnamespace[]) AND p.proowner <> l.oid
ORDER BY 1`},
	{Error, "Privileges of everybody are those of strangers, too. Grants are made by mesh.grant_namespace alone.", `
SELECT format('everybody may use the schema %s', n.nspname), format('REVOKE ALL ON SCHEMA %s FROM PUBLIC', n.nspname)
FROM pg_namespace n, aclexplode(n.nspacl) a WHERE n.nspname IN ('mesh', 'mesh_internal') AND a.grantee = 0 AND a.privilege_type = 'USAGE'`},
	{Warning, "Whoever may connect can listen in a transaction that does not end, and fill the queue of notifications; can use up the connections; and can send notifications on the mesh's channels. Nothing of that takes a privilege that could be revoked.", `
SELECT 'everybody may connect to the database', format('REVOKE CONNECT ON DATABASE %1$I FROM PUBLIC; GRANT CONNECT ON DATABASE %1$I TO %2$s', d.datname,
  concat_ws(', ', (SELECT quote_ident(rolname) FROM lord), (SELECT string_agg(quote_ident(g.rolname), ', ' ORDER BY g.rolname) FROM (
    SELECT r.rolname FROM pg_roles r JOIN granted ON granted.role = r.oid WHERE r.oid <> (SELECT oid FROM lord)) g)))
FROM pg_database d, aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) a WHERE d.datname = current_database() AND a.grantee = 0 AND a.privilege_type = 'CONNECT'`},
	{Warning, "Temporary tables fill the disk that the mesh is on, and have triggers that run in the transactions of whoever made them.", `
SELECT 'everybody may make temporary tables', format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC', d.datname)
FROM pg_database d, aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) a WHERE d.datname = current_database() AND a.grantee = 0 AND a.privilege_type = 'TEMPORARY'`},
	{Warning, "A role without a limit can take all of max_connections, and a server that has to connect anew cannot.", `
SELECT format('the tenant %I may have as many connections as there are', t.rolname), format('ALTER ROLE %I CONNECTION LIMIT 10', t.rolname)
FROM tenants t WHERE t.rolconnlimit < 0 ORDER BY t.rolname`},
	{Warning, "A transaction that is left open keeps what it has locked, and holds back vacuum. The role can set it otherwise in its own sessions, so this is against accidents; --end-blockers of mcp-server is against others.", `
SELECT format('sessions of the tenant %I have no %s', t.rolname, w.name), format('ALTER ROLE %I SET %s = %L', t.rolname, w.name, w.value)
FROM tenants t, (VALUES ('idle_in_transaction_session_timeout', '60s'), ('lock_timeout', '10s'), ('statement_timeout', '60s'), ('transaction_timeout', '300s')) w (name, value)
JOIN pg_settings s ON s.name = w.name
WHERE NOT EXISTS (SELECT FROM configured c WHERE c.name = w.name AND c.value !~ '^0(\D|$)' AND c.role IN (0, t.oid)
    AND c.database IN (0, (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())))
  AND s.reset_val = '0'
ORDER BY 1`},
	{Warning, "mcp-client blockers end and --end-blockers end sessions in the name of the owner.", `
SELECT format('the owner %I cannot end sessions of other roles', l.rolname), format('GRANT pg_signal_backend TO %I', l.rolname)
FROM lord l WHERE NOT pg_has_role(l.oid, 'pg_signal_backend', 'USAGE')`},
	{Warning, "Each lock takes a place in a table of fixed size, which all sessions share, and a migration takes one for each table of the mesh.", `
SELECT format('max_locks_per_transaction is %s', s.setting), 'ALTER SYSTEM SET max_locks_per_transaction = 128, and restart Postgres'
FROM pg_settings s WHERE s.name = 'max_locks_per_transaction' AND s.setting::int < 64`},
	{Warning, "Where the queue of notifications is half full the mesh sends none, and servers find changes by asking.", `
SELECT format('max_notify_queue_pages is %s', s.setting), 'ALTER SYSTEM SET max_notify_queue_pages = 1048576, and restart Postgres'
FROM pg_settings s WHERE s.name = 'max_notify_queue_pages' AND s.setting::bigint < 1024`},
	{Note, "Of sessions of other roles mesh.blockers tells who they are and whom they block, but not since when, from where, and with which query.", `
SELECT format('the owner %I does not see what other roles do', l.rolname), format('GRANT pg_read_all_stats TO %I', l.rolname)
FROM lord l WHERE NOT pg_has_role(l.oid, 'pg_read_all_stats', 'USAGE')`},
	{Note, "A prepared transaction keeps its locks without a session that could be ended: pg_prepared_xacts lists them.", `
SELECT format('max_prepared_transactions is %s', s.setting), 'ALTER SYSTEM SET max_prepared_transactions = 0, and restart Postgres, unless something needs them'
FROM pg_settings s WHERE s.name = 'max_prepared_transactions' AND s.setting::int > 0`},
}
