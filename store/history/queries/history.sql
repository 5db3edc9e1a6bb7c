-- name: Bounds
-- The revisions to search between. Commit times never decrease as revisions increase.
SELECT
  greatest(mesh.oldest_revision() - 1, (SELECT revision FROM mesh.revisions WHERE $1::timestamptz IS NOT NULL AND time < $1 ORDER BY revision DESC LIMIT 1)),
  CASE WHEN $2::timestamptz IS NULL THEN mesh.newest_revision()
    ELSE coalesce((SELECT revision FROM mesh.revisions WHERE time <= $2 ORDER BY revision DESC LIMIT 1), 0) END

-- fragment: Matching
SELECT r.revision, r.author, r.application, r.message, r.time, r.size FROM mesh.revisions r
WHERE r.revision > $1 AND r.revision <= $2 AND ($3 = '' OR r.author = $3) AND ($4 = '' OR strpos(lower(r.message), lower($4)) > 0)

-- fragment: Chosen
-- The condition for a selected change.
($5::text[] IS NULL OR h.kind = ANY ($5) AND (h.kind, h.api_group) IN (SELECT * FROM unnest($5::text[], $6::text[])))
    AND ($7::text[] IS NULL OR h.namespace = ANY ($7)) AND ($8::text[] IS NULL OR h.name = ANY ($8))

-- fragment: NewestFirst
ORDER BY r.revision DESC LIMIT $9

-- fragment: Changing
($5::text[] IS NULL AND $7::text[] IS NULL AND $8::text[] IS NULL
  OR EXISTS (SELECT FROM mesh.history h WHERE h.revision = r.revision AND {{Chosen}}))

-- fragment: OfPeople
(NOT $10 OR NOT r.by_machines)

-- name: PastRevisions
-- Searches revisions for selected changes.
{{Matching}} AND {{Changing}} AND {{OfPeople}} {{NewestFirst}}

-- name: PastRevisionsOf
-- Searches the changes of selected resources for revisions.
{{Matching}} AND r.revision IN (SELECT h.revision FROM mesh.history h WHERE {{Chosen}}) AND {{OfPeople}} {{NewestFirst}}

-- name: PastOfMachines
-- How many revisions of machines there are where PastRevisions looks.
SELECT count(*) FROM ({{Matching}} AND {{Changing}} AND r.by_machines) left_out

-- name: PastChanges
-- The changes of some revisions, up to a number of each, and how many there are.
SELECT revision, api_group, kind, namespace, name, operation, before, after, of_revision FROM (
  SELECT h.revision, h.api_group, h.kind, h.namespace, h.name, h.operation,
    CASE WHEN $6 THEN h.before END AS before, CASE WHEN $6 THEN h.after END AS after,
    row_number() OVER w AS n, count(*) OVER (PARTITION BY h.revision) AS of_revision
  FROM mesh.history h
  WHERE h.revision = ANY ($1) AND ($2::text[] IS NULL OR (h.kind, h.api_group) IN (SELECT * FROM unnest($2::text[], $3::text[])))
    AND ($4::text[] IS NULL OR h.namespace = ANY ($4)) AND ($5::text[] IS NULL OR h.name = ANY ($5))
  WINDOW w AS (PARTITION BY h.revision ORDER BY h.kind COLLATE "C", h.api_group COLLATE "C", h.namespace COLLATE "C", h.name COLLATE "C")) numbered
WHERE n <= $7 ORDER BY revision DESC, n

-- name: Blame
-- Who set each field of a resource.
SELECT path, value, coalesce(revision, 0), time, coalesce(author, ''), coalesce(application, ''), coalesce(message, '')
FROM mesh.blame($1, $2, $3, $4)

-- name: Diff
-- How resources differ between two revisions.
SELECT api_group, kind, namespace, name, operation, path, before, after FROM mesh.diff($1::bigint, $2::bigint, $3, mesh_internal.narrowed($4), $5)
