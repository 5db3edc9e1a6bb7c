-- name: Sinks
-- The sinks that are to be dialled.
SELECT address, metadata, CASE WHEN tls THEN 'secure' WHEN NOT tls THEN 'insecure' ELSE '' END, coalesce(server_name, ''), coalesce(server_id, '')
FROM mesh.sinks WHERE enabled ORDER BY address

-- name: Statuses
-- The states of all sinks at all servers.
SELECT address, coalesce(server, ''), dials, connected, since, coalesce(error, ''), let_go_at
FROM mesh.sink_status WHERE enabled ORDER BY address, server

-- name: Take
-- Takes a sink, unless another session has it, and says whether it did.
SELECT mesh_internal.take_sink($1, $2)

-- name: Release
-- Leaves a sink to others.
SELECT mesh_internal.release_sink($1)

-- name: ReportState
-- Reports how a sink is seen from a server, which may leave it to others.
SELECT mesh_internal.tell_sink($1, $2, $3, $4, $5, $6)
