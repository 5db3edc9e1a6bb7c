-- The keys of the views that can be written to. Postgres keeps no keys of views, so what reflects a
-- schema, as ORMs do, finds none there.

CREATE OR REPLACE VIEW mesh.view_keys AS
  SELECT view,
    ARRAY['namespace', parent] || CASE list WHEN '{}' THEN '{}' ELSE ARRAY(SELECT btrim(step, '{}') FROM unnest(list) step WHERE step LIKE '{%') || 'position'::text END AS key
  FROM mesh_internal.editable_views;

COMMENT ON VIEW mesh.view_keys IS 'The keys of the views that can be written to, for programs that map rows to objects: Postgres itself keeps no keys of views.';
COMMENT ON COLUMN mesh.view_keys.view IS 'A view of the schema mesh.';
COMMENT ON COLUMN mesh.view_keys.key IS 'The columns that together tell a row from all others of the view; none is NULL.';
