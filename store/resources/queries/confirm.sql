-- name: Confirmations
-- The changes that are or were to be confirmed, the newest first.
SELECT revision, author, message, state, deadline, extract(epoch FROM within)::float8, ended_at, coalesce(ended_by, ''),
  coalesce(reverted_by, 0), conflicts
FROM mesh.confirmations WHERE $1::text[] IS NULL OR state = ANY ($1) ORDER BY revision DESC LIMIT $2

-- name: Confirm
-- Keeps a change.
SELECT mesh.confirm(nullif($1::bigint, 0))
