-- fragment: Selected
-- The condition for a selected resource. Its parameters are those that Selection.arguments returns.
$1::bigint IS NOT NULL AND (api_group, kind) IN (SELECT * FROM unnest($2::text[], $3::text[]))
  AND ($4::text[] IS NULL OR namespace = ANY ($4)) AND ($5::text[] IS NULL OR name = ANY ($5))
  AND ($6::jsonb IS NULL OR NOT EXISTS (
    SELECT FROM jsonb_to_recordset($6) AS q (key text, "values" text[], absent boolean)
    WHERE (labels ? q.key AND (q."values" IS NULL OR labels ->> q.key = ANY (q."values"))) = q.absent))
  AND ($7 = '' OR spec @@ nullif($7, '')::jsonpath)

-- fragment: OnPage
-- The selected resources of a page.
{{Selected}}
  AND ($8::text IS NULL OR (kind, api_group, namespace, name) > ($8, $9::text, $10::text, $11::text))
ORDER BY kind, api_group, namespace, name LIMIT $12

-- name: SelectNow
-- A page in the order of the primary key, by its index.
SELECT {{ResourceColumns}} FROM {{ResourceRows}} r WHERE true AND {{OnPage}}

-- name: SelectPast
-- A page of an earlier revision. It leaves out resources that changed since, and adds their earlier versions
-- from history, so the cost depends on the page and the changes, not on the size of the mesh. NOT IN becomes
-- a hashed filter, which keeps the order of the index and does not compare everything with everything.
WITH changed AS MATERIALIZED (
    SELECT * FROM mesh_internal.changed_since(mesh_internal.known_revision($1), (SELECT array_agg(DISTINCT k) FROM unnest($3::text[]) k), $4, $5)),
  untouched AS MATERIALIZED (SELECT {{ResourceColumns}} FROM {{ResourceRows}} r
    WHERE (kind, api_group, namespace, name) NOT IN (SELECT kind, api_group, namespace, name FROM changed) AND {{OnPage}}),
  touched AS MATERIALIZED (SELECT {{ResourceColumns}} FROM changed r WHERE spec IS NOT NULL AND {{OnPage}})
SELECT * FROM (SELECT * FROM untouched UNION ALL SELECT * FROM touched) page ORDER BY kind, api_group, namespace, name LIMIT $12

-- fragment: InOrder
ORDER BY kind COLLATE "C", api_group COLLATE "C", namespace COLLATE "C", name COLLATE "C"

-- name: ExportNow
-- The selected resources.
SELECT {{ResourceColumns}} FROM {{ResourceRows}} r WHERE {{Selected}}
{{InOrder}}

-- name: ExportPast
-- The selected resources at an earlier revision.
SELECT {{ResourceColumns}} FROM mesh.as_of($1::bigint) r WHERE {{Selected}}
{{InOrder}}

-- name: Fit
-- Which of these specs meet a predicate.
SELECT coalesce(nullif(u.spec, '')::jsonb @@ $1::jsonpath, false) FROM unnest($2::text[]) WITH ORDINALITY u (spec, i) ORDER BY u.i
