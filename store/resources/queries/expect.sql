-- fragment: ExpectedRows
FROM mesh.resources r JOIN unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS e (g, k, s, n) ON r.api_group = g AND r.kind = k AND r.namespace = s AND r.name = n

-- name: LockExpected
-- Locks resources.
SELECT {{ExpectedRows}} ORDER BY r.kind, r.api_group, r.namespace, r.name FOR UPDATE OF r

-- name: ExpectedRevisions
-- The revisions that changed resources last.
SELECT r.api_group, r.kind, r.namespace, r.name, coalesce(mesh_internal.revision_of(r), 0) {{ExpectedRows}}

-- name: LastChange
-- The revision that last changed or deleted a resource.
SELECT revision, author, application, message, time FROM mesh.history
WHERE kind = $1 AND api_group = $2 AND namespace = $3 AND name = $4 ORDER BY revision DESC LIMIT 1
