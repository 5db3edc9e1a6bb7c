-- name: RestoreRevision
-- Sets resources back to a revision.
SELECT operation, api_group, kind, namespace, name FROM mesh.restore($1::bigint, $2, mesh_internal.narrowed($3), $4)

-- name: RestoreTime
-- Sets resources back to a time.
SELECT operation, api_group, kind, namespace, name FROM mesh.restore($1::timestamptz, $2, mesh_internal.narrowed($3), $4)

-- name: Revert
-- Takes back one revision.
SELECT outcome, api_group, kind, namespace, name, coalesce(changed_by, 0) FROM mesh.revert($1)
