-- fragment: BlockerRows
SELECT reason, pid, coalesce(role, ''), coalesce(database, ''), coalesce(application, ''), coalesce(client, ''), coalesce(state, ''),
  coalesce(since, '0001-01-01Z'), coalesce(waiting_since, '0001-01-01Z'), blocks, coalesce(query, ''), server, coalesce(transaction, '') FROM mesh.blockers

-- name: Blockers
-- The sessions that block others.
{{BlockerRows}}

-- name: BlockersOf
-- The sessions that block one.
{{BlockerRows}} WHERE $1 = ANY (blocks)

-- name: EndBlocker
-- Ends a blocking session, if it still is in the given transaction.
SELECT mesh.end_blocker($1, nullif($2, ''))

-- name: QueueUsage
-- How full the notification queue is, from 0 to 1.
SELECT mesh_internal.notification_queue_usage()
