-- name: Claim
-- Has a keeper mirror a registry, and says whether it does.
SELECT mesh_internal.claim_registry($1, $2, $3, $4)

-- name: Entries
-- Entries of a registry after one, and the version of each.
SELECT kind, api_group, namespace, name, version FROM mesh_internal.mirrored_entries($1, $2, $3, $4, $5, $6)

-- name: Write
-- Takes what has changed of a registry, and says whether the keeper still mirrors it.
SELECT mesh_internal.mirror_registry($1, $2, $3, $4, $5, $6, $7, $8, $9)

-- name: Leave
-- Ends what a keeper mirrors.
SELECT mesh_internal.leave_registries($1)

-- name: Statuses
-- What became of a registry's configuration.
SELECT kind, api_group, namespace, name, version, conditions, status FROM mesh_internal.registry_statuses($1) ORDER BY kind, api_group, namespace, name

-- name: Moves
-- Counts revisions, and messages of reports, of which each may change statuses.
SELECT mesh_internal.status_moves()
