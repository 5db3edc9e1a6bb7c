-- name: Quotas
-- What namespaces use, and what they may.
SELECT namespace, resources, max_resources, bytes, max_bytes, mesh.setting('resource_max_bytes', namespace)::bigint, written_today, max_written
FROM mesh.quotas WHERE $1::text[] IS NULL OR namespace = ANY ($1) ORDER BY namespace COLLATE "C"

-- name: ResetSetting
-- Sets a limit of a namespace back to the default.
SELECT mesh.reset_setting($1, $2)

-- name: PutSetting
-- Sets a limit of a namespace.
INSERT INTO mesh.settings (namespace, name, value) VALUES ($1, $2, $3)
ON CONFLICT (name, namespace) DO UPDATE SET value = EXCLUDED.value

-- name: HostGrants
-- Which hosts belong to which namespaces.
SELECT pattern, namespace, granted_by, granted_at FROM mesh.host_grants
WHERE $1::text[] IS NULL OR namespace = ANY ($1) ORDER BY pattern COLLATE "C"

-- name: GrantHosts
-- Gives hosts to a namespace.
SELECT mesh.grant_hosts($1, p) FROM unnest($2::text[]) p

-- name: ForeignClaims
-- How many resources claim hosts that others own.
SELECT mesh_internal.foreign_claims()

-- name: RevokeHosts
-- Takes a pattern of hosts back, and says whether it was granted.
SELECT mesh.revoke_hosts($1)

-- name: HostOwner
-- Who alone may claim a host; NULL if everybody may.
SELECT mesh.owner_of_host(lower($1))
