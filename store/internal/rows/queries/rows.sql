-- fragment: ResourceRows
-- The current resources, each with the revision that changed it last; 0 for a resource that came around
-- the triggers.
(SELECT r.*, coalesce(t.revision, 0) AS revision
	FROM mesh.resources r LEFT JOIN mesh_internal.transactions t ON t.xid = r.xid AND t.begun_at = r.updated_at)

-- fragment: ResourceColumns
-- Their columns that Key and Body are scanned from.
api_group, kind, namespace, name, spec, labels, annotations, revision, generation, created_at, updated_at
