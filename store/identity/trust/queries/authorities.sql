-- fragment: StartOfAuthority
SELECT id, state, fingerprint, chain

-- fragment: RestOfAuthority
not_before, not_after, created_at, created_by,
  coalesce(activated_at, '0001-01-01Z'), coalesce(activated_by, ''), coalesce(replaced_at, '0001-01-01Z'), coalesce(retired_at, '0001-01-01Z'), coalesce(retired_by, '')
FROM mesh.authorities a ORDER BY id

-- name: Authorities
-- The authorities of the mesh, without their keys.
{{StartOfAuthority}}, '', {{RestOfAuthority}}

-- name: AuthoritiesWithKeys
-- The same, with their encrypted keys, which only servers may read.
{{StartOfAuthority}}, (SELECT k.sealed_key FROM mesh_internal.authority_keys k WHERE k.id = a.id), {{RestOfAuthority}}

-- name: FirstAuthority
-- Keeps the first authority of a mesh, and says whether this was it.
SELECT won FROM mesh_internal.first_authority($1, $2)

-- name: AddAuthority
-- Keeps an authority that is to sign next.
SELECT mesh_internal.add_authority($1, $2)

-- name: ActivateAuthority
-- Has the next authority sign.
SELECT mesh.activate_authority($1, $2)

-- name: RetireAuthority
-- Ends the trust in an authority, and deletes its key.
SELECT mesh.retire_authority($1, $2)

-- name: ResealAuthority
-- Replaces the encrypted key of an authority, and says whether it still was the one known.
SELECT mesh_internal.reseal_authority($1, $2, $3)
