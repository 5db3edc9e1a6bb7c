-- name: Revocations
-- Who was revoked, also where that was lifted.
SELECT namespace, coalesce(identity, ''), coalesce(enrolment, ''), reason, revoked_at, revoked_by, coalesce(lifted_at, '0001-01-01Z'), coalesce(lifted_by, '')
FROM mesh.revocations WHERE $1::text[] IS NULL OR namespace = ANY ($1) ORDER BY id DESC

-- name: NamespaceOf
-- The namespace of a machine, by its enrolment.
SELECT mesh_internal.namespace_of_enrolment($1)

-- name: RevokeIdentity
-- Revokes all machines of a service account, and says whether that changed anything.
SELECT mesh.revoke_identity($1, $2, $3)

-- name: RestoreIdentity
-- Lifts that, and says whether there was anything to lift.
SELECT mesh.restore_identity($1, $2)

-- name: RevokeMachine
-- Revokes one machine.
SELECT mesh.revoke_machine($1, $2)

-- name: RestoreMachine
-- Lifts that.
SELECT mesh.restore_machine($1)

-- name: RevokeServer
-- Revokes a server.
SELECT mesh.revoke_server($1, $2, $3)

-- name: RestoreServer
-- Lifts that.
SELECT mesh.restore_server($1, $2)
