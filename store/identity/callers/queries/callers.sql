-- name: Tokens
-- All tokens, also those that are no longer in force.
SELECT id, name, hash, scopes, created_at, created_by, coalesce(expires_at, '0001-01-01Z'), coalesce(revoked_at, '0001-01-01Z'),
  coalesce(revoked_by, ''), coalesce(used_at, '0001-01-01Z')
FROM mesh.tokens ORDER BY name, id

-- name: CreateToken
-- Keeps the hash of a new token.
SELECT mesh.create_token($1, $2, $3, $4)

-- name: RevokeToken
-- Takes a token back, and says whether one of that name was in force.
SELECT mesh.revoke_token($1)

-- name: NoteTokenUses
-- Keeps when tokens were used last.
SELECT mesh_internal.note_token_uses($1, $2)

-- name: Readers
-- What clients with an identity are shown.
SELECT identity, namespaces, kinds, labels FROM mesh.readers ORDER BY id
