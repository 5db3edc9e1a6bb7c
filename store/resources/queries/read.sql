-- name: Get
-- One resource.
SELECT {{ResourceColumns}} FROM {{ResourceRows}} r WHERE kind = $1 AND api_group = $2 AND namespace = $3 AND name = $4

-- name: List
-- The resources of a kind, or of all, in a namespace, or in all.
SELECT {{ResourceColumns}} FROM {{ResourceRows}} r WHERE ($1 = '' OR kind = $1 AND api_group = $2) AND ($3 = '' OR namespace = $3)
ORDER BY kind COLLATE "C", api_group COLLATE "C", namespace COLLATE "C", name COLLATE "C"

-- name: Near
-- Candidates for what a missing name may have meant. Searching more would cost more than the hint is worth.
SELECT namespace, name FROM mesh.resources
WHERE kind = $1 AND api_group = $2 AND (namespace = $3 OR name = $4) ORDER BY name <> $4, namespace, name LIMIT 2000

-- name: Namespaces
-- The namespaces that have resources or secrets, or that grants name.
SELECT n.namespace FROM (SELECT namespace FROM mesh.resources UNION SELECT namespace FROM mesh.secrets UNION SELECT namespace FROM mesh.grants) n WHERE n.namespace NOT IN ('', '*')

-- name: Overview
-- The newest and oldest revision, and how many changes wait for a confirmation.
SELECT newest, mesh.oldest_revision(), (SELECT time FROM mesh.revisions WHERE revision = newest),
  (SELECT count(*) FROM mesh.confirmations WHERE state = 'waiting') FROM mesh.newest_revision() AS newest

-- name: CountKinds
-- How many resources of each kind there are.
SELECT api_group, kind, count(*) FROM mesh.resources GROUP BY kind, api_group ORDER BY kind COLLATE "C", api_group COLLATE "C"
