-- A VirtualService without hosts has routes for others to delegate to. If none does, nothing happens
-- because of it: the other was deleted, or its hosts were forgotten. It may also have been made first, so
-- transactions are not told of it.
CREATE OR REPLACE VIEW mesh_internal.unused_delegates AS
  SELECT 'info' AS severity, 'unused-delegate' AS code, d.kind, d.api_group, d.namespace, d.name, 'spec.hosts' AS path,
    'it has no hosts, so that it is for others to delegate to, and no VirtualService does' AS message,
    'add hosts, name it in http[].delegate of another VirtualService, or delete it' AS hint
  FROM mesh_internal.every_link d
  WHERE d.role = 'is' AND d.part = 'VirtualService' AND NOT d.hidden
    AND NOT EXISTS (SELECT FROM mesh_internal.every_link l WHERE l.role = 'delegate' AND l.target = d.target AND NOT l.hidden);

COMMENT ON VIEW mesh_internal.unused_delegates IS 'Internal. Read mesh.problems.';
