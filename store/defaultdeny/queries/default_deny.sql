-- name: State
-- Whether default deny is on, and by which resources.
SELECT enabled, policy, mutual_tls, peer_authentication, mesh_internal.root_namespace() FROM mesh.default_deny

-- name: Exceptions
-- The resources that allow more than named members.
SELECT kind, namespace, name, exception FROM mesh.default_deny_exceptions ORDER BY namespace COLLATE "C", kind COLLATE "C", name COLLATE "C"

-- name: Set
-- Turns default deny on or off.
SELECT operation, api_group, kind, namespace, name FROM mesh.set_default_deny($1)
