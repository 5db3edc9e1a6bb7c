-- name: SealingKeys
-- The keys that encrypt secrets, the oldest first.
SELECT id, wrapped FROM mesh.sealing_keys ORDER BY created_at, id COLLATE "C"

-- name: AddSealingKey
-- Stores a key if there still are as many as known, and says whether it did.
SELECT mesh_internal.add_sealing_key($1, $2, $3)
