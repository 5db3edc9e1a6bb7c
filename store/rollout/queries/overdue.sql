-- name: Overdue
-- For how many seconds there has been a revision after one; 0 if there is none.
SELECT coalesce((SELECT greatest(0, extract(epoch FROM now() - t.time)) FROM mesh_internal.transactions t WHERE t.revision > $1 ORDER BY t.revision LIMIT 1), 0)::float8
