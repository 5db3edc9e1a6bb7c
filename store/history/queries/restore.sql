-- name: RestoreRevision
-- Sets resources back to a revision.
SELECT operation, api_group, kind, namespace, name FROM mesh.restore($1::bigint, $2, mesh_internal.narrowed($3), $4)

-- name: RestoreTime
-- Sets resources back to a time.
SELECT operation, api_group, kind, namespace, name FROM mesh.restore($1::timestamptz, $2, mesh_internal.narrowed($3), $4)

-- name: Revert
-- Takes back one revision.
SELECT outcome, api_group, kind, namespace, name, coalesce(changed_by, 0) FROM mesh.revert($1)

-- name: Changer
-- Tells who made a revision, and whether a resource is gone.
SELECT r.author, r.application, r.message, r.time,
  NOT EXISTS (SELECT FROM mesh.resources n WHERE n.kind = $2 AND n.api_group = $3 AND n.namespace = $4 AND n.name = $5)
FROM mesh.revisions r WHERE r.revision = $1
