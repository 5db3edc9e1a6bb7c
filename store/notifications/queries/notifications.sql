-- name: IsStandby
-- Whether the database is a hot standby.
SELECT pg_is_in_recovery()

-- name: ListenForRevisions
-- Subscribes to new revisions.
LISTEN mesh

-- name: ListenForServers
-- Subscribes to changes of tables that servers use.
LISTEN mesh_servers

-- name: QueueIsFilling
-- Whether notifications may be left out now or soon.
SELECT mesh_internal.notification_queue_usage() >= 0.25
