-- name: ReadFor
-- Says which namespaces the caller may read, so that no others are named.
SELECT set_config('mesh.reading', $1, true)

-- name: Problems
-- The problems of committed resources, the worst first.
SELECT severity, code, api_group, kind, namespace, name, path, message, coalesce(hint, '') FROM mesh.problems
WHERE $1::text[] IS NULL OR namespace = ANY ($1)
ORDER BY array_position('{error,warning,info}', severity), namespace, kind, name, path

-- name: ReportFindings
-- Stores what a program found, unless the database is a hot standby.
SELECT CASE WHEN NOT pg_is_in_recovery() THEN mesh_internal.report_findings($1, $2) END
