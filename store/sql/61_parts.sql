-- Views of parts of resources, one row per part. Their columns come from the table of types and
-- fields, like those of 60_views.sql. Positions count from 0, like the paths in messages.

-- list_source joins the items of a list; none if it is no list. All positions are within the range,
-- but Postgres cannot know that: it guesses that a list has 100 items, and that the range keeps one
-- in 200. One item is near the truth. Estimates of 100 for each of several nested lists came to
-- millions of rows, and Postgres compiled each query.
CREATE OR REPLACE FUNCTION mesh_internal.list_source(list text, name text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
  SELECT format(' JOIN LATERAL jsonb_array_elements(CASE jsonb_typeof(%s) WHEN ''array'' THEN %1$s END) WITH ORDINALITY %s (value, i) ON %2$s.i BETWEEN 1 AND 1000000000',
    list, name)
$$;

-- describe_part describes the view of the items of a list. The columns before tell in which list of
-- the resource the item is; the columns after replace the fields in left_out.
CREATE OR REPLACE FUNCTION mesh_internal.describe_part(v mesh_internal.editable_views, type text, before mesh_internal.editable_columns[], after mesh_internal.editable_columns[], left_out text[])
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM mesh_internal.describe_view(v, type, 'part.value',
    ARRAY[
      (NULL, 0, 'namespace', 'text', 'r.namespace', NULL, NULL, format('The namespace of the %s; default if left out.', v.kind)),
      (NULL, 0, v.parent, 'text', 'r.name', NULL, NULL, format('The name of the %s.', v.kind))]::mesh_internal.editable_columns[]
    || before
    || (NULL, 0, 'position', 'numeric', '(part.i - 1)::numeric', NULL, NULL, 'Which it is in its list, from 0.')::mesh_internal.editable_columns
    || after,
    ARRAY[
      (NULL, 0, 'spec', 'jsonb', 'part.value', NULL, NULL, 'The whole part, of which the other columns show the fields.'),
      (NULL, 0, 'revision', 'bigint', 'r.revision', NULL, NULL, format('The revision that changed the %s last; NULL where that is the running transaction.', v.kind))]::mesh_internal.editable_columns[],
    left_out);
END $$;

-- describe_routes describes what a VirtualService does with requests and connections, and where it
-- sends them.
CREATE OR REPLACE FUNCTION mesh_internal.describe_routes() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  networking CONSTANT text := 'networking.istio.io';
  routes     CONSTANT text := 'mesh_internal.visible_resources() r CROSS JOIN (VALUES (''http''), (''tls''), (''tcp'')) protocol (name)';
  protocol   CONSTANT mesh_internal.editable_columns := (NULL, 0, 'protocol', 'text', 'protocol.name', NULL, NULL, 'Which list of routes: http, tls or tcp; http if left out.');
BEGIN
  PERFORM mesh_internal.describe_part(
    ('routes', networking, 'VirtualService', 'virtual_service', '{"{protocol}"}', '{name,match}',
      routes || mesh_internal.list_source('(r.spec -> protocol.name)', 'part'), 'The routes of VirtualServices, in the order in which they are tried.'),
    'istio.networking.v1alpha3.HTTPRoute', ARRAY[protocol], '{}', '{}');
  PERFORM mesh_internal.describe_part(
    ('route_destinations', networking, 'VirtualService', 'virtual_service', '{"{protocol}","{route_position}",route}', '{host,subset,port}',
      routes || mesh_internal.list_source('(r.spec -> protocol.name)', 'route') || mesh_internal.list_source('(route.value -> ''route'')', 'part'),
      'The destinations of routes of VirtualServices, and the share of requests that each is given.'),
    'istio.networking.v1alpha3.HTTPRouteDestination',
    ARRAY[
      protocol,
      (NULL, 0, 'route_position', 'numeric', '(route.i - 1)::numeric', NULL, NULL, 'Which route of the VirtualService, from 0.'),
      (NULL, 0, 'route', 'text', '(route.value ->> ''name'')', NULL, NULL, 'The name of the route. Change it in mesh.routes.'),
      (NULL, 0, 'match', 'jsonb', 'nullif(route.value -> ''match'', ''null'')', NULL, NULL, 'What the route matches. Change it in mesh.routes.')]::mesh_internal.editable_columns[],
    ARRAY[
      (NULL, 0, 'host', 'text', mesh_internal.read_field('part.value', '{destination,host}', NULL, 'text'), '{destination,host}', NULL, 'The field destination.host: the service, required'),
      (NULL, 0, 'subset', 'text', mesh_internal.read_field('part.value', '{destination,subset}', NULL, 'text'), '{destination,subset}', NULL, 'The field destination.subset: a subset that a DestinationRule declares'),
      (NULL, 0, 'port', 'integer', mesh_internal.read_field('part.value', '{destination,port,number}', NULL, 'integer'), '{destination,port,number}', NULL,
        'The field destination.port.number: the port, if the service has several')]::mesh_internal.editable_columns[],
    '{destination}');
END $$;

-- describe_parts describes the views of parts.
CREATE OR REPLACE FUNCTION mesh_internal.describe_parts() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  networking CONSTANT text := 'networking.istio.io';
  resources  CONSTANT text := 'mesh_internal.visible_resources() r';
BEGIN
  PERFORM mesh_internal.describe_routes();
  PERFORM mesh_internal.describe_part(
    ('subsets', networking, 'DestinationRule', 'destination_rule', '{subsets}', '{name}', resources || mesh_internal.list_source('(r.spec -> ''subsets'')', 'part'),
      'The subsets that DestinationRules declare.'),
    'istio.networking.v1alpha3.Subset', '{}', '{}', '{}');
  PERFORM mesh_internal.describe_part(
    ('service_ports', networking, 'ServiceEntry', 'service_entry', '{ports}', '{name}', resources || mesh_internal.list_source('(r.spec -> ''ports'')', 'part'),
      'The ports of ServiceEntries.'),
    'istio.networking.v1alpha3.ServicePort', '{}', '{}', '{}');
  PERFORM mesh_internal.describe_part(
    ('service_endpoints', networking, 'ServiceEntry', 'service_entry', '{endpoints}', '{address,ports}', resources || mesh_internal.list_source('(r.spec -> ''endpoints'')', 'part'),
      'The endpoints that ServiceEntries list. Those that a workloadSelector finds are in mesh.workload_entries.'),
    'istio.networking.v1alpha3.WorkloadEntry', '{}', '{}', '{}');
  PERFORM mesh_internal.describe_part(
    ('gateway_servers', networking, 'Gateway', 'gateway', '{servers}', '{name,port,hosts}', resources || mesh_internal.list_source('(r.spec -> ''servers'')', 'part'),
      'The servers of Istio''s Gateways: on which port they listen, and for which hosts.'),
    'istio.networking.v1alpha3.Server', '{}',
    ARRAY[
      (NULL, 0, 'port', 'integer', mesh_internal.read_field('part.value', '{port,number}', NULL, 'integer'), '{port,number}', NULL, 'The field port.number, required'),
      (NULL, 0, 'protocol', 'text', mesh_internal.read_field('part.value', '{port,protocol}', NULL, 'text'), '{port,protocol}', NULL,
        'The field port.protocol: HTTP, HTTPS, GRPC, HTTP2, MONGO, TCP or TLS, required'),
      (NULL, 0, 'port_name', 'text', mesh_internal.read_field('part.value', '{port,name}', NULL, 'text'), '{port,name}', NULL, 'The field port.name, required')]::mesh_internal.editable_columns[],
    '{port}');
END $$;
