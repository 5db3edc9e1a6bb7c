-- fragment: Mark
-- The mark of a row of mesh_internal.transactions with the alias t. It needs no column: two histories do not share a
-- pair of transaction id and start time in microseconds.
t.xid::text || '.' || (extract(epoch FROM t.begun_at) * 1000000)::bigint

-- name: Settings
-- Keeps Postgres from planning the query for a page for every revision, which would cost more than the
-- query. These are set by a statement, not at connection start, because a pooler may refuse a start with
-- settings that it does not know. Compiling takes 50 ms or more, which no query here gains.
SET plan_cache_mode = force_generic_plan; SET jit = off

-- name: PageSettings
-- Keeps Postgres from reading all of mesh_internal.changes for a page, as it would after a bulk load has changed the
-- statistics. The OFFSET 0 in Page does the same: it forces a lookup for each transaction.
SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_seqscan = off

-- name: Page
-- The next revisions after one, so many at most, with what they changed, and the mark of that one, '' if it is not kept.
WITH page AS (
  SELECT t.*, sum(size) OVER (ORDER BY revision) AS changes, count(*) OVER () AS revisions
  FROM (SELECT * FROM mesh_internal.transactions WHERE revision > $1 ORDER BY revision LIMIT $2) t)
SELECT t.revisions, coalesce((SELECT {{Mark}} FROM mesh_internal.transactions t WHERE t.revision = $1), ''), t.revision, {{Mark}}, t.author, t.application, t.message, t.begun_at, t.time,
  t.secrets, coalesce(c.api_group, ''), coalesce(c.kind, ''), coalesce(c.namespace, ''), coalesce(c.name, ''),
  c.before_spec, c.before_labels, c.before_annotations,
  c.before_revision, c.before_generation, c.before_created_at, c.before_updated_at,
  c.after_spec, c.after_labels, c.after_annotations,
  t.revision, coalesce(c.before_generation, 0) + (c.after_spec IS DISTINCT FROM c.before_spec)::int,
  coalesce(c.before_created_at, t.begun_at), t.begun_at
FROM page t LEFT JOIN LATERAL (SELECT * FROM mesh_internal.changes x WHERE x.transaction_id = t.id OFFSET 0) c ON true
WHERE (c.kind IS NOT NULL OR t.secrets) AND (t.changes <= $3 OR t.changes = t.size)
ORDER BY t.revision, c.kind COLLATE "C", c.api_group COLLATE "C", c.namespace COLLATE "C", c.name COLLATE "C"

-- name: Position
-- The newest revision, and the mark of the last seen one.
SELECT (SELECT coalesce(max(revision), 0) FROM mesh_internal.transactions),
  coalesce((SELECT {{Mark}} FROM mesh_internal.transactions t WHERE t.revision = $1), '')

-- name: Newest
-- The newest revision, with its mark.
SELECT t.revision, {{Mark}} FROM mesh_internal.transactions t WHERE t.revision > 0 ORDER BY t.revision DESC LIMIT 1

-- name: Snapshot
-- All resources, in no particular order.
SELECT {{ResourceColumns}} FROM {{ResourceRows}} r

-- name: Unchecked
-- The resources that the current rules did not check.
SELECT r.api_group, r.kind, r.namespace, r.name FROM mesh.resources r
WHERE r.rules < (SELECT mesh_internal.current_rules()) OR r.rules > (SELECT mesh_internal.current_rules())

-- name: Installation
-- The id of the mesh. It is a hash of a random secret, and reveals nothing about it.
SELECT left(encode(sha256(convert_to('pgmesh installation ' || secret, 'UTF8')), 'hex'), 32) FROM mesh_internal.installation
