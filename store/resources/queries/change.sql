-- name: Begin
-- Says of the transaction who makes it and how, and what its warnings may name.
SELECT set_config('mesh.author', $1, true), set_config('mesh.message', $2, true), set_config('mesh.limited', $4, true),
  set_config('mesh.reading', $5, true), set_config('application_name', coalesce(nullif($3, ''), current_setting('application_name')), true)

-- name: RunningTransaction
-- The id that the transaction's changes are recorded under; NULL if there are none.
SELECT max(id) FROM mesh_internal.running_transaction

-- name: ExamineChange
-- Examines the change, as a commit would.
SELECT mesh_internal.examine_change($1)

-- name: CommitConfirmed
-- Has the change reverted unless it is confirmed in time.
SELECT mesh.commit_confirmed($1)

-- name: CommittedRevision
-- The revision of a transaction; 0 if its changes cancelled each other out.
SELECT coalesce(max(revision), 0) FROM mesh_internal.transactions WHERE id = $1

-- name: Deadline
-- When a revision is reverted unless it is confirmed.
SELECT deadline FROM mesh.confirmations WHERE revision = $1

-- name: Upsert
-- Creates and replaces resources. It locks and does not write a row that needs no change.
INSERT INTO mesh.resources AS r (api_group, kind, namespace, name, spec, labels, annotations)
SELECT g, k, s, n, spec::jsonb, labels::jsonb, annotations::jsonb
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[]) AS u (g, k, s, n, spec, labels, annotations)
ON CONFLICT (kind, api_group, namespace, name) DO UPDATE
SET spec = EXCLUDED.spec, labels = EXCLUDED.labels, annotations = EXCLUDED.annotations
WHERE (r.spec, r.labels, r.annotations) IS DISTINCT FROM (EXCLUDED.spec, EXCLUDED.labels, EXCLUDED.annotations)
RETURNING api_group, kind, namespace, name, xmax = 0

-- name: Remove
-- Deletes resources.
DELETE FROM mesh.resources r
USING unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS d (g, k, s, n)
WHERE r.api_group = g AND r.kind = k AND r.namespace = s AND r.name = n
RETURNING api_group, kind, namespace, name, true

-- name: UpsertSecrets
-- Creates and replaces secrets, whose specs have a type, data and service accounts.
INSERT INTO mesh.secrets AS s (namespace, name, type, data, service_accounts, labels)
SELECT ns, n, spec::jsonb ->> 'type', coalesce(spec::jsonb -> 'data', '{}'),
  ARRAY(SELECT a #>> '{}' FROM jsonb_path_query(spec::jsonb, '$.serviceAccounts[*] ? (@ != null)') a), labels::jsonb
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS u (ns, n, spec, labels)
ON CONFLICT (namespace, name) DO UPDATE SET type = EXCLUDED.type, data = EXCLUDED.data, service_accounts = EXCLUDED.service_accounts, labels = EXCLUDED.labels
WHERE (s.type, s.data, s.service_accounts, s.labels) IS DISTINCT FROM (EXCLUDED.type, EXCLUDED.data, EXCLUDED.service_accounts, EXCLUDED.labels)
RETURNING 'core', 'Secret', namespace, name, xmax = 0

-- name: RemoveSecrets
-- Deletes secrets.
DELETE FROM mesh.secrets s USING unnest($1::text[], $2::text[]) AS d (ns, n)
WHERE s.namespace = ns AND s.name = n RETURNING 'core', 'Secret', namespace, name, true

-- name: Prune
-- Deletes the resources of some kinds and namespaces, except for some, and for what machines have registered by themselves.
DELETE FROM mesh.resources r
USING unnest($5::text[], $6::text[]) AS pruned (g, k)
WHERE r.api_group = pruned.g AND r.kind = pruned.k AND r.namespace = ANY ($7::text[])
  AND NOT (r.kind = 'WorkloadEntry' AND r.annotations ? 'mesh.pgmesh.io/machine')
  AND (r.api_group, r.kind, r.namespace, r.name) NOT IN (SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]))
RETURNING r.api_group, r.kind, r.namespace, r.name, true
