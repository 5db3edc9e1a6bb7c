-- fragment: SecretColumns
s.namespace, s.name, s.type, s.data, s.labels, s.digests, s.not_before, s.not_after, s.author, s.created_at, s.updated_at, s.service_accounts

-- name: Secrets
-- The secrets of some namespaces, or of all.
SELECT {{SecretColumns}} FROM mesh.secrets s
WHERE $1::text[] IS NULL OR s.namespace = ANY ($1) ORDER BY s.namespace COLLATE "C", s.name COLLATE "C"

-- name: AllSecrets
-- All secrets, for a snapshot.
SELECT {{SecretColumns}} FROM mesh.secrets s

-- name: ChangedSecrets
-- The current state of the secrets that some revisions changed.
SELECT t.revision, c.namespace, c.name, (
    SELECT max(x.revision) FROM mesh_internal.secret_changes y JOIN mesh_internal.transactions x ON x.id = y.transaction_id
    WHERE y.namespace = c.namespace AND y.name = c.name),
  {{SecretColumns}}
FROM mesh_internal.transactions t JOIN mesh_internal.secret_changes c ON c.transaction_id = t.id
  LEFT JOIN mesh.secrets s ON s.namespace = c.namespace AND s.name = c.name
WHERE t.revision = ANY ($1)
ORDER BY t.revision, c.namespace COLLATE "C", c.name COLLATE "C"
