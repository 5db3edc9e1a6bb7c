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
SELECT mesh_internal.take_report($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)

-- name: End
-- Ends a report.
SELECT mesh_internal.end_reports($1, $2)

-- name: EndAll
-- Ends all reports of the session.
SELECT mesh_internal.end_reports($1)

-- name: Sweep
-- Removes what has been away for so many milliseconds, and says how many rows that were.
SELECT mesh_internal.sweep_reports($1 * interval '1 ms')

-- name: ReadFor
-- Says which namespaces the caller may read, so that nothing is told of others.
SELECT set_config('mesh.reading', $1, true)

-- fragment: Proxy
-- The columns of a proxy.
p.namespace, p.proxy, p.node, p.role, p.service_account, p.labels, p.locality, p.network, p.addresses, p.envoy, p.agent, p.protocol, p.discovery, p.server, p.connected, p.state,
  coalesce(p.sent, 0), coalesce(p.runs, 0), p.refused, p.changed, coalesce(p.gone, '0001-01-01Z'), p.certificate_ends, (extract(epoch FROM p.took) * 1000000)::bigint

-- name: List
-- The proxies of the mesh.
SELECT {{Proxy}}
FROM mesh.proxies p WHERE ($1::text[] IS NULL OR p.namespace = ANY ($1)) AND ($2 = '' OR p.proxy = $2) AND ($3 = '' OR p.state = $3)
ORDER BY p.namespace, p.proxy

-- name: Refusals
-- What proxies refuse.
SELECT namespace, proxy, discovery, type_url, envoy_resource, reason, since, coalesce(source_group, ''), coalesce(source_kind, ''), coalesce(source_namespace, ''), coalesce(source_name, ''),
  coalesce(source_path, ''), coalesce(revision, 0), coalesce(author, ''), sources
FROM mesh.refusals WHERE ($1::text[] IS NULL OR namespace = ANY ($1)) AND ($2 = '' OR proxy = $2)
ORDER BY namespace, proxy, type_url, envoy_resource LIMIT $3

-- fragment: Rollout
-- The columns of a rollout.
revision, committed_at, coalesce(author, ''), concerned, ran, refused, to_answer, away,
  coalesce(first_at, '0001-01-01Z'), coalesce(half_at, '0001-01-01Z'), coalesce(last_at, '0001-01-01Z')

-- name: Rollouts
-- How far the latest revisions have come, from one on.
SELECT {{Rollout}} FROM mesh_internal.latest_rollouts($1, $2)

-- name: RolloutOf
-- How far one revision has come.
SELECT {{Rollout}} FROM mesh.rollouts WHERE revision = $1

-- name: RolloutParts
-- How far a revision has come, by discovery and namespace.
SELECT discovery, namespace, concerned, ran, refused, to_answer, away,
  coalesce(first_at, '0001-01-01Z'), coalesce(half_at, '0001-01-01Z'), coalesce(last_at, '0001-01-01Z')
FROM mesh.rollout_parts WHERE revision = $1 ORDER BY discovery, namespace

-- name: Statuses
-- What became of resources.
SELECT api_group, kind, namespace, name, coalesce(observed_revision, 0), conditions, concerned, running, refusing, status
FROM mesh_internal.statuses_of($1, $2, $3) ORDER BY kind, api_group, namespace, name

-- name: RevisionOf
-- The revision of the last change of a resource.
SELECT coalesce(revision, 0) FROM mesh_internal.chosen_resources(ARRAY[$1::text], ARRAY[$2::text], ARRAY[$3::text])

-- name: Runners
-- The connected proxies that a resource concerns, and whether they run it.
SELECT {{Proxy}}, r.runs
FROM mesh_internal.runners_of($1, $2, $3, $4) r JOIN mesh.proxies p ON p.namespace = r.namespace AND p.proxy = r.proxy ORDER BY p.namespace, p.proxy

-- name: Newest
-- The newest revision.
SELECT mesh.newest_revision()

-- name: Tally
-- How many proxies there are of each namespace, state and revision.
SELECT namespace, state, coalesce(sent, 0), coalesce(runs, 0), count(*) FROM mesh_internal.known_proxies GROUP BY 1, 2, 3, 4

-- name: Behind
-- Connected proxies that do not run a revision, first those that need looking after.
SELECT b.*, CASE b.state WHEN 'refused' THEN coalesce(mesh_internal.first_refusal(b.namespace, b.proxy), '') ELSE '' END FROM (
  SELECT namespace, proxy, state, coalesce(sent, 0), coalesce(runs, 0), refused FROM mesh_internal.known_proxies
  WHERE state <> 'away' AND coalesce(runs, 0) < $1 AND ($2::text[] IS NULL OR namespace = ANY ($2))
  ORDER BY array_position('{refused,silent,sending,synced}'::text[], state), namespace, proxy LIMIT $3) b
