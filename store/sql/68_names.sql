-- How names in specs are read. kinds/reference reads them the same way in Go, and describes each
-- form. 69_references.sql says what is named where.

-- full_host completes a short name, one without dots, as all readers of routes and rules do.
-- Addresses are complete.
CREATE OR REPLACE FUNCTION mesh_internal.full_host(host text, namespace text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
  SELECT lower(CASE WHEN host ~ '[.:]' OR host IN ('', '*') OR namespace = '' THEN host ELSE host || '.' || namespace || '.svc.cluster.local' END)
$$;

-- full_gateway returns NAMESPACE/NAME of a gateway, which may be written as NAME, ./NAME,
-- NAMESPACE/NAME, or NAME.NAMESPACE with anything after it.
CREATE OR REPLACE FUNCTION mesh_internal.full_gateway(name text, namespace text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN name = 'mesh' THEN name
    WHEN name LIKE './%' THEN namespace || substr(name, 2)
    WHEN strpos(name, '/') > 0 THEN name
    WHEN strpos(name, '.') > 0 THEN split_part(name, '.', 2) || '/' || split_part(name, '.', 1)
    ELSE namespace || '/' || name END
$$;

-- Earlier programs called obeyed_by, and a parameter of the two others, by another name, which a
-- replacement cannot change.
DROP FUNCTION IF EXISTS mesh_internal.sight(text[], text);
DROP FUNCTION IF EXISTS mesh_internal.destination_named(text, text, jsonb, text[], text);
DROP FUNCTION IF EXISTS mesh_internal.full_host_named(text, text, jsonb, text[], text);

-- obeyed_by returns the namespaces that obey a resource, and so must see the services that it
-- names. Of a resource for everybody only its own namespace is known, and public services (*),
-- which everybody sees.
CREATE OR REPLACE FUNCTION mesh_internal.obeyed_by(exported text[], namespace text) RETURNS text[]
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN '*' = ANY (exported) THEN ARRAY['*', namespace] || array_remove(exported, '*') ELSE ARRAY['*'] || exported END
$$;

CREATE OR REPLACE FUNCTION mesh_internal.gateway_named(role text, namespace text, value jsonb, at text)
RETURNS TABLE (role text, target text, part text, port int, scope text[], detail jsonb, path text)
LANGUAGE sql IMMUTABLE AS $$
  SELECT role, mesh_internal.full_gateway(value #>> '{}', namespace), '', NULL::int, NULL::text[], NULL::jsonb, at WHERE value <> '"mesh"'
$$;

CREATE OR REPLACE FUNCTION mesh_internal.destination_named(role text, namespace text, value jsonb, obeyed_by text[], at text)
RETURNS TABLE (role text, target text, part text, port int, scope text[], detail jsonb, path text)
LANGUAGE sql IMMUTABLE AS $$
  SELECT role, mesh_internal.full_host(value ->> 'host', namespace), coalesce(value ->> 'subset', ''), (value #>> '{port,number}')::int, obeyed_by, NULL::jsonb, at
  WHERE value ->> 'host' <> ''
$$;

CREATE OR REPLACE FUNCTION mesh_internal.full_host_named(role text, namespace text, value jsonb, obeyed_by text[], at text)
RETURNS TABLE (role text, target text, part text, port int, scope text[], detail jsonb, path text)
LANGUAGE sql IMMUTABLE AS $$
  SELECT role, lower(value ->> 'host'), coalesce(value ->> 'subset', ''), (value #>> '{port,number}')::int, obeyed_by, NULL::jsonb, at WHERE value ->> 'host' <> ''
$$;

CREATE OR REPLACE FUNCTION mesh_internal.delegate_named(role text, namespace text, value jsonb, at text)
RETURNS TABLE (role text, target text, part text, port int, scope text[], detail jsonb, path text)
LANGUAGE sql IMMUTABLE AS $$
  SELECT role, coalesce(nullif(value ->> 'namespace', ''), namespace) || '/' || (value ->> 'name'), '', NULL::int, NULL::text[], NULL::jsonb, at
  WHERE value ->> 'name' <> ''
$$;

-- A credential is a secret and, perhaps, its namespace. Anything else makes no row.
CREATE OR REPLACE FUNCTION mesh_internal.credential_named(role text, namespace text, value jsonb, at text)
RETURNS TABLE (role text, target text, part text, port int, scope text[], detail jsonb, path text)
LANGUAGE sql IMMUTABLE AS $$
  SELECT role, coalesce(m[3], m[4]), coalesce(m[2], ''), NULL::int, NULL::text[], NULL::jsonb, at
  FROM regexp_matches(value #>> '{}', '^(?:(?:kubernetes|kubernetes-gateway)://)?(([^/:]+)/([^/:]+)|([^/:]+))$') m
$$;

-- What a module is pulled with is in the namespace of the resource, whatever is written before the
-- name.
CREATE OR REPLACE FUNCTION mesh_internal.pull_secret_named(role text, namespace text, value jsonb, at text)
RETURNS TABLE (role text, target text, part text, port int, scope text[], detail jsonb, path text)
LANGUAGE sql IMMUTABLE AS $$
  SELECT role, m[1], namespace, NULL::int, NULL::text[], NULL::jsonb, at FROM regexp_matches(value #>> '{}', '([^/]+)$') m
$$;

-- What follows is for the Gateway API. A secret without a namespace is in the namespace of the
-- resource.
CREATE OR REPLACE FUNCTION mesh_internal.secret_named(role text, namespace text, value jsonb, at text)
RETURNS TABLE (role text, target text, part text, port int, scope text[], detail jsonb, path text)
LANGUAGE sql IMMUTABLE AS $$
  SELECT role, value ->> 'name', coalesce(nullif(value ->> 'namespace', ''), namespace), NULL::int, NULL::text[], NULL::jsonb, at
  WHERE coalesce(value ->> 'kind', 'Secret') = 'Secret' AND value ->> 'name' <> ''
$$;

CREATE OR REPLACE FUNCTION mesh_internal.attachment_named(role text, namespace text, value jsonb, at text)
RETURNS TABLE (role text, target text, part text, port int, scope text[], detail jsonb, path text)
LANGUAGE sql IMMUTABLE AS $$
  SELECT role, coalesce(nullif(value ->> 'namespace', ''), namespace) || '/' || (value ->> 'name'), coalesce(value ->> 'kind', 'Gateway'), (value ->> 'port')::int, NULL::text[],
    jsonb_strip_nulls(jsonb_build_object('section', nullif(value ->> 'sectionName', ''), 'group', coalesce(value ->> 'group', 'gateway.networking.k8s.io'))), at
  WHERE value ->> 'name' <> ''
$$;

-- A Service is its host.
CREATE OR REPLACE FUNCTION mesh_internal.backend_named(role text, namespace text, value jsonb, at text)
RETURNS TABLE (role text, target text, part text, port int, scope text[], detail jsonb, path text)
LANGUAGE sql IMMUTABLE AS $$
  SELECT role, CASE k.kind WHEN 'Service' THEN lower((value ->> 'name') || '.' || k.namespace || '.svc.cluster.local')
      WHEN 'Hostname' THEN lower(value ->> 'name') ELSE k.namespace || '/' || (value ->> 'name') END,
    k.kind, coalesce(value #>> '{port,number}', value ->> 'port')::int, ARRAY['*', namespace],
    jsonb_build_object('group', coalesce(value ->> 'group', ''), 'namespace', k.namespace, 'name', value ->> 'name'), at
  FROM (SELECT coalesce(value ->> 'kind', 'Service'), coalesce(nullif(value ->> 'namespace', ''), namespace)) AS k (kind, namespace)
  WHERE value ->> 'name' <> ''
$$;
