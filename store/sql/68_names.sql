-- How names in specs are read, by what stands there. kinds/reference reads them the same way in Go, and says what each form is like. What
-- is named where is in 69_references.sql.

-- full_host completes a short name, one without dots, as every reader of routes and rules does. Addresses are complete.
CREATE OR REPLACE FUNCTION mesh_internal.full_host(host text, namespace text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
  SELECT lower(CASE WHEN host ~ '[.:]' OR host IN ('', '*') OR namespace = '' THEN host ELSE host || '.' || namespace || '.svc.cluster.local' END)
$$;

-- full_gateway is namespace/name of a gateway that may be written as name, ./name, namespace/name, or name.namespace with anything after it.
CREATE OR REPLACE FUNCTION mesh_internal.full_gateway(name text, namespace text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN name = 'mesh' THEN name
    WHEN name LIKE './%' THEN namespace || substr(name, 2)
    WHEN strpos(name, '/') > 0 THEN name
    WHEN strpos(name, '.') > 0 THEN split_part(name, '.', 2) || '/' || split_part(name, '.', 1)
    ELSE namespace || '/' || name END
$$;

-- sight is for whom services must be there that a resource names: for the namespaces that obey it. Of one for everybody only its own is known, and
-- what is public (*) is there for all.
CREATE OR REPLACE FUNCTION mesh_internal.sight(exported text[], namespace text) RETURNS text[]
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN '*' = ANY (exported) THEN ARRAY['*', namespace] || array_remove(exported, '*') ELSE ARRAY['*'] || exported END
$$;

CREATE OR REPLACE FUNCTION mesh_internal.gateway_named(role text, namespace text, value jsonb, at text)
RETURNS TABLE (role text, target text, part text, port int, scope text[], detail jsonb, path text)
LANGUAGE sql IMMUTABLE AS $$
  SELECT role, mesh_internal.full_gateway(value #>> '{}', namespace), '', NULL::int, NULL::text[], NULL::jsonb, at WHERE value <> '"mesh"'
$$;

CREATE OR REPLACE FUNCTION mesh_internal.destination_named(role text, namespace text, value jsonb, sight text[], at text)
RETURNS TABLE (role text, target text, part text, port int, scope text[], detail jsonb, path text)
LANGUAGE sql IMMUTABLE AS $$
  SELECT role, mesh_internal.full_host(value ->> 'host', namespace), coalesce(value ->> 'subset', ''), (value #>> '{port,number}')::int, sight, NULL::jsonb, at
  WHERE value ->> 'host' <> ''
$$;

CREATE OR REPLACE FUNCTION mesh_internal.full_host_named(role text, namespace text, value jsonb, sight text[], at text)
RETURNS TABLE (role text, target text, part text, port int, scope text[], detail jsonb, path text)
LANGUAGE sql IMMUTABLE AS $$
  SELECT role, lower(value ->> 'host'), coalesce(value ->> 'subset', ''), (value #>> '{port,number}')::int, sight, NULL::jsonb, at WHERE value ->> 'host' <> ''
$$;

CREATE OR REPLACE FUNCTION mesh_internal.delegate_named(role text, namespace text, value jsonb, at text)
RETURNS TABLE (role text, target text, part text, port int, scope text[], detail jsonb, path text)
LANGUAGE sql IMMUTABLE AS $$
  SELECT role, coalesce(nullif(value ->> 'namespace', ''), namespace) || '/' || (value ->> 'name'), '', NULL::int, NULL::text[], NULL::jsonb, at
  WHERE value ->> 'name' <> ''
$$;

-- A credential is a secret and, if it says so, its namespace. What is no secret gives no row.
CREATE OR REPLACE FUNCTION mesh_internal.credential_named(role text, namespace text, value jsonb, at text)
RETURNS TABLE (role text, target text, part text, port int, scope text[], detail jsonb, path text)
LANGUAGE sql IMMUTABLE AS $$
  SELECT role, coalesce(m[3], m[4]), coalesce(m[2], ''), NULL::int, NULL::text[], NULL::jsonb, at
  FROM regexp_matches(value #>> '{}', '^(?:(?:kubernetes|kubernetes-gateway)://)?(([^/:]+)/([^/:]+)|([^/:]+))$') m
$$;

-- What follows is of the Gateway API's manner. A secret is in its own namespace, where none is named.
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
    k.kind, (value ->> 'port')::int, ARRAY['*', namespace],
    jsonb_build_object('group', coalesce(value ->> 'group', ''), 'namespace', k.namespace, 'name', value ->> 'name'), at
  FROM (SELECT coalesce(value ->> 'kind', 'Service'), coalesce(nullif(value ->> 'namespace', ''), namespace)) AS k (kind, namespace)
  WHERE value ->> 'name' <> ''
$$;
