-- name: PrepareKeeper
-- Has the database notice within half a minute that the host of the server is gone, and keep the session
-- although it seldom does anything.
SELECT set_config(s.name, w.value, false)
FROM (VALUES ('tcp_keepalives_idle', '10'), ('tcp_keepalives_interval', '5'), ('tcp_keepalives_count', '3'), ('idle_session_timeout', '0')) w (name, value)
  JOIN pg_settings s ON s.name = w.name

-- name: Keep
-- Makes the session a keeper of reports.
SELECT mesh_internal.keep_reports($1)

-- name: Alive
-- Whether the reports of the session count.
SELECT mesh_internal.keeps_reports($1)

-- name: Begin
-- Begins the report of a discovery.
SELECT mesh_internal.begin_report($1, $2)

-- name: Take
-- Takes one message of a report.
SELECT mesh_internal.take_report($1, $2, $3, $4, $5, $6)

-- name: End
-- Ends a report.
SELECT mesh_internal.end_reports($1, $2)

-- name: EndAll
-- Ends all reports of the session.
SELECT mesh_internal.end_reports($1)

-- name: Sweep
-- Removes what has been away for so many milliseconds, and says how many rows that were.
SELECT mesh_internal.sweep_reports($1 * interval '1 ms')

-- name: List
-- The proxies of the mesh.
SELECT namespace, proxy, node, role, service_account, labels, locality, network, addresses, envoy, agent, protocol, discovery, server, connected, state,
  coalesce(sent, 0), coalesce(runs, 0), refused, changed, coalesce(gone, '0001-01-01Z')
FROM mesh.proxies WHERE ($1::text[] IS NULL OR namespace = ANY ($1)) AND ($2 = '' OR proxy = $2) AND ($3 = '' OR state = $3)
ORDER BY namespace, proxy

-- name: Newest
-- The newest revision.
SELECT mesh.newest_revision()

-- name: Tally
-- How many proxies there are of each namespace, state and revision.
SELECT namespace, state, coalesce(sent, 0), coalesce(runs, 0), count(*) FROM mesh.proxies GROUP BY 1, 2, 3, 4

-- name: Behind
-- Connected proxies that do not run a revision, first those that need looking after.
SELECT namespace, proxy, state, coalesce(sent, 0), coalesce(runs, 0), refused FROM mesh.proxies
WHERE state <> 'away' AND coalesce(runs, 0) < $1 AND ($2::text[] IS NULL OR namespace = ANY ($2))
ORDER BY array_position('{refused,silent,sending,synced}'::text[], state), namespace, proxy LIMIT $3
