-- name: SchemaVersion
-- The version of the schema.
SELECT coalesce(max(version_id), 0) FROM mesh.schema_version WHERE is_applied

-- name: RevisionAt
-- The revision of a moment, and the newest.
SELECT coalesce($1, mesh.revision_at($2), mesh.newest_revision()), mesh.newest_revision()

-- name: GiveUpSoon
-- Has the transaction give up rather than wait.
SET LOCAL lock_timeout = '2s'

-- name: SetAuthor
-- Says in whose name the transaction is.
SELECT set_config('mesh.author', $1, true)
