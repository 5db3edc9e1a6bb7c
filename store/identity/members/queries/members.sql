-- name: CreateJoinToken
-- Keeps the hash of a new join token.
SELECT mesh.create_join_token($1, $2, $3, $4, $5, $6, $7, $8)

-- name: RevokeJoinToken
-- Takes a join token back, and says whether one of that name was in force.
SELECT mesh.revoke_join_token($1)

-- name: RevokeJoinTokenAmong
-- The same, for those who may take back only the tokens of some namespaces, or of servers.
SELECT mesh_internal.revoke_join_token_among($1, $2, $3)

-- name: JoinTokens
-- The join tokens, also those that are no longer in force.
SELECT id, name, namespace, coalesce(service_account, ''), coalesce(workload_group, ''), coalesce(program, ''), max_uses, uses,
  created_at, created_by, expires_at, coalesce(revoked_at, '0001-01-01Z'), coalesce(revoked_by, ''), coalesce(used_at, '0001-01-01Z'), state
FROM mesh.join_tokens WHERE $1::text[] IS NULL OR namespace = ANY ($1) ORDER BY name, id

-- name: RedeemJoinTokens
-- Uses join tokens, and says what came of each.
SELECT coalesce(refusal, ''), coalesce(detail, ''), coalesce(token, ''), coalesce(namespace, ''), coalesce(service_account, ''),
  coalesce(workload_group, ''), coalesce(program, ''), coalesce(enrolment, '')
FROM mesh_internal.redeem_join_tokens($1, $2, $3, $4, $5) ORDER BY place

-- name: RecordCertificates
-- Records which certificates a server gave, and what it refused.
SELECT mesh_internal.record_certificates($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)

-- name: NoteControlPlane
-- Keeps the host names of a server, which nobody may claim.
SELECT mesh_internal.note_control_plane($1, $2)

-- name: Issues
-- The record of certificates and refusals, the newest first.
SELECT id, at, server, coalesce(refusal, ''), detail, identity, enrolment, serial, coalesce(not_after, '0001-01-01Z'), authority, credential, peer,
  key_hash, coalesce(took, '0'), coalesce(first_at, '0001-01-01Z'), times
FROM mesh.certificates
WHERE ($1::text[] IS NULL OR namespace = ANY ($1)) AND ($2 = '' OR identity = $2) AND ($3 = '' OR enrolment = $3) AND (NOT $4 OR refusal IS NOT NULL) AND at > $5
ORDER BY at DESC LIMIT $6

-- name: Machines
-- Who has a certificate in force.
SELECT namespace, identity, enrolment, issued_at, not_after, serial, authority, server, peer, revoked FROM mesh.machines
WHERE $1::text[] IS NULL OR namespace = ANY ($1) ORDER BY namespace, identity, enrolment

-- name: PruneCertificates
-- Deletes records that are over, so many at most.
SELECT mesh_internal.prune_certificates($1)
