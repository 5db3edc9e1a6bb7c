-- name: Registered
-- The services that machines have registered.
SELECT namespace, machine, workload_group, state, coalesce(entry, ''), coalesce(refused, ''), address, network, locality, health, detail,
  service_account, enrolment, labels, ports, weight, discovery, server, since, registered_at, coalesce(gone_at, '0001-01-01Z')
FROM mesh.registered_machines WHERE ($1::text[] IS NULL OR namespace = ANY ($1)) AND ($2 = '' OR machine = $2) AND ($3 = '' OR workload_group = $3)
ORDER BY namespace, machine, workload_group

-- name: Remove
-- Removes a machine, and says how many of its services that were.
SELECT mesh.remove_machine($1, $2, nullif($3, ''), $4)

-- name: OpenSession
-- Opens a session of a discovery, at a server.
SELECT mesh_internal.open_workload_session($1, $2, $3)

-- name: Register
-- Registers the changes of one message of a session, and says what came of each.
SELECT coalesce(entry, ''), coalesce(refused, ''), superseded FROM mesh_internal.register_workloads($1, $2, $3, $4) ORDER BY place

-- name: RowsWritten
-- How many rows the running transaction has written.
SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0)::bigint FROM pg_stat_xact_user_tables WHERE schemaname IN ('mesh', 'mesh_internal')

-- name: BeginRegistration
-- Sets the author, and has the transaction give up rather than wait.
SELECT set_config('mesh.author', $1, true), set_config('lock_timeout', '2s', true)

-- name: RefreshSessions
-- Refreshes sessions, and says which are in force, with the number of the last message of each.
SELECT session, number FROM mesh_internal.refresh_workload_sessions($1, $2)

-- name: EndSessions
-- Ends sessions whose streams have ended.
SELECT mesh_internal.end_workload_sessions($1, $2)

-- name: Watch
-- Advances the clock that measures how long machines are gone.
SELECT beat, moved, idle FROM mesh_internal.watch_workloads($1, $2, $3)

-- name: RemoveGone
-- Removes services that were gone for too long, so many at most.
SELECT mesh_internal.remove_gone_workloads($1, $2)

-- name: RemoveOrphaned
-- Removes entries of machines that nobody knows.
SELECT mesh_internal.remove_orphaned_workloads()
