-- Views of parts of the Gateway API: rules of routes with what they match, their backends and
-- filters, and listeners. A part is named as the API names it, and its view after the kind.

-- describe_rule_part describes the view of what a list of each rule has, for a kind of routes. Rules
-- that can match are shown beside, unless the rows are what they match.
CREATE OR REPLACE FUNCTION mesh_internal.describe_rule_part(kind text, part text, list text, identity text[], after mesh_internal.editable_columns[], left_out text[], summary text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  api     CONSTANT text := 'gateway.networking.k8s.io';
  parent  CONSTANT text := mesh_internal.snake_case(kind);
  rules   CONSTANT text := api || '/' || kind || '.rules';
  matches CONSTANT boolean := list <> 'matches' AND EXISTS (SELECT FROM mesh.schema_fields f WHERE f.type = rules AND f.name = 'matches');
BEGIN
  PERFORM mesh_internal.describe_part(
    (parent || '_' || part, api, kind, parent, ARRAY['rules', '{rule_position}', list], identity,
      'mesh_internal.visible_resources() r' || mesh_internal.list_source('(r.spec -> ''rules'')', 'rule') || mesh_internal.list_source(format('(rule.value -> %L)', list), 'part'), summary),
    rules || '.' || list,
    ARRAY[
      (NULL, 0, 'rule_position', 'numeric', '(rule.i - 1)::numeric', NULL, NULL, format('Which rule of the %s, from 0.', kind)),
      (NULL, 0, 'rule', 'text', '(rule.value ->> ''name'')', NULL, NULL, format('The name of the rule. Change it in mesh.%s.', CASE WHEN matches OR list = 'matches' THEN parent || '_rules' ELSE parent || 's' END))]::mesh_internal.editable_columns[]
    || CASE WHEN matches THEN ARRAY[
      (NULL, 0, 'matches', 'jsonb', 'nullif(rule.value -> ''matches'', ''null'')', NULL, NULL, format('What the rule matches. Change it in mesh.%s_rules or mesh.%1$s_matches.', parent))]::mesh_internal.editable_columns[] END,
    after, left_out);
END $$;

-- describe_backends describes the view of the backends of a kind of routes.
CREATE OR REPLACE FUNCTION mesh_internal.describe_backends(kind text) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT mesh_internal.describe_rule_part(kind, 'backends', 'backendRefs', '{group,kind,name,spec_namespace,port}', '{}', '{}',
    format('The backends of rules of %ss, and the weight by which each is given its share.', kind))
$$;

-- describe_requests describes the views of what rules about requests have, for a kind of routes.
CREATE OR REPLACE FUNCTION mesh_internal.describe_requests(kind text, matched text[], after mesh_internal.editable_columns[], left_out text[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  api    CONSTANT text := 'gateway.networking.k8s.io';
  parent CONSTANT text := mesh_internal.snake_case(kind);
BEGIN
  PERFORM mesh_internal.describe_part(
    (parent || '_rules', api, kind, parent, '{rules}', '{name,matches}', 'mesh_internal.visible_resources() r' || mesh_internal.list_source('(r.spec -> ''rules'')', 'part'),
      format('The rules of %ss.', kind)),
    api || '/' || kind || '.rules', '{}', '{}', '{}');
  PERFORM mesh_internal.describe_rule_part(kind, 'matches', 'matches', matched, after, left_out,
    format('What rules of %ss match: a request for which all columns of one row hold. A rule without rows matches all requests.', kind));
  PERFORM mesh_internal.describe_rule_part(kind, 'filters', 'filters', '{type}', '{}', '{}', format('The filters of rules of %ss, which change requests or answer them.', kind));
  PERFORM mesh_internal.describe_backends(kind);
END $$;

-- deep_column is a column of a part for a string that lies deeper in it.
CREATE OR REPLACE FUNCTION mesh_internal.deep_column(name text, path text[], summary text) RETURNS mesh_internal.editable_columns
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT (NULL, 0, name, 'text', mesh_internal.read_field('part.value', path, NULL, 'text'), path, NULL, format('The field %s: %s', array_to_string(path, '.'), summary))::mesh_internal.editable_columns
$$;

-- describe_listeners describes the view of the listeners of a Gateway or a ListenerSet.
CREATE OR REPLACE FUNCTION mesh_internal.describe_listeners(kind text, parent text) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT mesh_internal.describe_part(
    (parent || '_listeners', 'gateway.networking.k8s.io', kind, parent, '{listeners}', '{name}',
      'mesh_internal.visible_resources() r' || mesh_internal.list_source('(r.spec -> ''listeners'')', 'part'),
      format('The listeners of %ss of the Gateway API: on which port they listen, for which hostname, and which routes they take.', kind)),
    'gateway.networking.k8s.io/' || kind || '.listeners', '{}', '{}', '{}')
$$;

-- describe_api_parts describes the views of parts of the Gateway API.
CREATE OR REPLACE FUNCTION mesh_internal.describe_api_parts() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM mesh_internal.describe_requests('HTTPRoute', '{path_type,path,method,headers,query_params}', ARRAY[
    mesh_internal.deep_column('path_type', '{path,type}', 'Exact, PathPrefix or RegularExpression; PathPrefix if left out'),
    mesh_internal.deep_column('path', '{path,value}', 'the path; / if left out')], '{path}');
  PERFORM mesh_internal.describe_requests('GRPCRoute', '{method_type,service,method,headers}', ARRAY[
    mesh_internal.deep_column('method_type', '{method,type}', 'Exact or RegularExpression; Exact if left out'),
    mesh_internal.deep_column('service', '{method,service}', 'the service, with its package'),
    mesh_internal.deep_column('method', '{method,method}', 'the method of the service')], '{method}');
  PERFORM mesh_internal.describe_backends('TLSRoute');
  PERFORM mesh_internal.describe_backends('TCPRoute');
  PERFORM mesh_internal.describe_backends('UDPRoute');
  PERFORM mesh_internal.describe_listeners('Gateway', 'gateway');
  PERFORM mesh_internal.describe_listeners('ListenerSet', 'listener_set');
END $$;
