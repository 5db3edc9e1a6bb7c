-- What routes and policies of the Gateway API are attached to, found from links alone.

CREATE OR REPLACE VIEW mesh_internal.dangling_attachments AS
  SELECT CASE l.role WHEN 'parent' THEN 'error' ELSE 'warning' END AS severity, CASE l.role WHEN 'parent' THEN 'unknown-parent' ELSE 'unknown-target' END AS code,
    l.kind, l.api_group, l.namespace, l.name, l.path || '.name' AS path,
    format('there is no %s %s', l.part, l.target) AS message, NULL COLLATE "C" AS hint, ARRAY['key', l.part, l.target, 'create it, or correct the name'] COLLATE "default" AS sought
  FROM mesh_internal.every_link l
  WHERE l.role IN ('parent', 'attachment') AND NOT l.hidden AND l.part IN ('Gateway', 'ListenerSet', 'ServiceEntry', 'InferencePool')
    AND NOT EXISTS (SELECT FROM mesh_internal.every_link i WHERE i.role = 'is' AND i.target = l.target AND i.part = l.part AND i.api_group = l.detail ->> 'group')
  UNION ALL
  SELECT 'error', 'not-allowed', l.kind, l.api_group, l.namespace, l.name, l.path,
    format('no listener of %s %s takes routes from namespace "%s"', l.part, l.target, l.namespace),
    'let allowedRoutes.namespaces of a listener admit them', NULL
  FROM mesh_internal.every_link l
  WHERE l.role = 'parent' AND NOT l.hidden
    AND EXISTS (SELECT FROM mesh_internal.every_link i WHERE i.role = 'listener' AND i.target = l.target AND i.kind = l.part AND NOT i.hidden)
    AND NOT EXISTS (SELECT FROM mesh_internal.every_link i
      WHERE i.role = 'listener' AND i.target = l.target AND i.kind = l.part AND i.scope && ARRAY['*', l.namespace] AND NOT i.hidden);

-- A Service is there if a ServiceEntry has its host.
CREATE OR REPLACE VIEW mesh_internal.dangling_services AS
  SELECT CASE l.role WHEN 'parent' THEN 'error' ELSE 'warning' END AS severity, CASE l.role WHEN 'parent' THEN 'unknown-parent' ELSE 'unknown-target' END AS code,
    l.kind, l.api_group, l.namespace, l.name, l.path || '.name' AS path,
    format('there is no Service %s: no ServiceEntry has its host', l.target) AS message,
    format('create a ServiceEntry with the host "%s"', mesh_internal.service_host(l.target)) AS hint
  FROM mesh_internal.every_link l
  WHERE l.role IN ('parent', 'attachment') AND NOT l.hidden AND l.part = 'Service'
    AND NOT EXISTS (SELECT FROM mesh_internal.links s
      WHERE s.role = 'service' AND s.target = mesh_internal.service_host(l.target))
    AND (NOT (SELECT EXISTS (SELECT FROM mesh_internal.registries))
      OR NOT mesh_internal.registries_have(mesh_internal.service_host(l.target), ARRAY[split_part(l.target, '/', 1)], '{*}'));

-- A parent may be some listeners of a Gateway, by their name or port.
CREATE OR REPLACE VIEW mesh_internal.dangling_sections AS
  SELECT 'error' AS severity, 'unknown-listener' AS code, l.kind, l.api_group, l.namespace, l.name, l.path,
    format('%s %s has no such listener', l.part, l.target) AS message,
    'its listeners: ' || (SELECT string_agg(i.part || ' on port ' || i.port, ', ' ORDER BY i.path) FROM mesh_internal.every_link i WHERE i.role = 'listener' AND i.target = l.target AND NOT i.hidden) AS hint
  FROM mesh_internal.every_link l
  WHERE l.role = 'parent' AND NOT l.hidden AND (l.port IS NOT NULL OR l.detail ? 'section')
    AND EXISTS (SELECT FROM mesh_internal.every_link i WHERE i.role = 'listener' AND i.target = l.target AND i.kind = l.part AND NOT i.hidden)
    AND NOT EXISTS (SELECT FROM mesh_internal.every_link i
      WHERE i.role = 'listener' AND i.target = l.target AND i.kind = l.part
        AND i.port = coalesce(l.port, i.port) AND i.part = coalesce(l.detail ->> 'section', i.part) AND NOT i.hidden);

CREATE OR REPLACE VIEW mesh_internal.dangling_backends AS
  SELECT 'error' AS severity, 'unknown-backend' AS code, l.kind, l.api_group, l.namespace, l.name, l.path || '.name' AS path,
    format('there is no %s %s', l.part, l.target) AS message, NULL COLLATE "C" AS hint, ARRAY['key', l.part, l.target, 'create it, or correct the name'] COLLATE "default" AS sought
  FROM mesh_internal.every_link l
  WHERE l.role = 'backend' AND NOT l.hidden AND l.part IN ('InferencePool', 'XBackend', 'ServiceEntry')
    AND NOT EXISTS (SELECT FROM mesh_internal.every_link i WHERE i.role = 'is' AND i.target = l.target AND i.part = l.part)
  UNION ALL
  SELECT 'error', 'not-permitted', l.kind, l.api_group, l.namespace, l.name, l.path,
    format('namespace "%s" does not permit a %s of namespace "%s" to refer to its %s "%s"',
      l.detail ->> 'namespace', l.kind, l.namespace, l.part, l.detail ->> 'name'),
    format('create a ReferenceGrant in namespace "%s"', l.detail ->> 'namespace'), NULL
  FROM mesh_internal.every_link l
  WHERE l.role = 'backend' AND NOT l.hidden AND l.part <> 'Hostname' AND l.detail ->> 'namespace' <> l.namespace
    AND NOT EXISTS (SELECT FROM mesh_internal.every_link g
      WHERE g.role = 'grant' AND g.part = l.part AND g.target IN ((l.detail ->> 'namespace') || '/*', (l.detail ->> 'namespace') || '/' || (l.detail ->> 'name'))
        AND g.scope && ARRAY[l.namespace] AND g.detail ->> 'kind' = l.kind AND NOT g.hidden);

COMMENT ON VIEW mesh_internal.dangling_attachments IS 'Internal. Read mesh.problems.';
COMMENT ON VIEW mesh_internal.dangling_services IS 'Internal. Read mesh.problems.';
COMMENT ON VIEW mesh_internal.dangling_sections IS 'Internal. Read mesh.problems.';
COMMENT ON VIEW mesh_internal.dangling_backends IS 'Internal. Read mesh.problems.';
