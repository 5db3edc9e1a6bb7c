-- Routes of a VirtualService are tried in order, so one that comes after another that matches all that
-- it does is never reached. Rules of HTTPRoutes have no order, so that this is of VirtualServices alone.

-- route_matches has what each route asks for, and whether it is left to others.
CREATE OR REPLACE FUNCTION mesh_internal.route_matches(spec jsonb) RETURNS jsonb[]
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  RETURN ARRAY(SELECT jsonb_build_array(r -> 'match', r -> 'delegate') FROM jsonb_path_query(spec, '$.http[*]') r)
    || ARRAY(SELECT r -> 'match' FROM jsonb_path_query(spec, '$.tls[*]') r) || ARRAY(SELECT r -> 'match' FROM jsonb_path_query(spec, '$.tcp[*]') r);
END $$;

-- conditions_of has the conditions of a match but for its path, such that a match has those of another
-- if it contains them. Of lists and of headers that must not be there, fewer do not ask for less.
CREATE OR REPLACE FUNCTION mesh_internal.conditions_of(match jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$
  SELECT coalesce(jsonb_object_agg(key, CASE WHEN key IN ('headers', 'queryParams', 'sourceLabels') THEN value ELSE to_jsonb(value::text) END), '{}')
  FROM jsonb_each(match) WHERE value NOT IN ('{}', '[]', '""', 'null')
$$;

-- unreachable_routes lists the routes of VirtualServices that are never reached. A match covers another
-- if it has no other conditions, and its path is a prefix of the other's, or the same. The empty prefix
-- stands for any path. Where very many matches differ in more than paths, only those are compared that
-- have the same conditions, or none. A route that delegates matches only what its delegate does.
CREATE OR REPLACE FUNCTION mesh_internal.unreachable_routes(VARIADIC specs jsonb[]) RETURNS TABLE (spec int, path text, route jsonb, message text, hint text)
LANGUAGE sql IMMUTABLE ROWS 10 SET search_path = pg_catalog, pg_temp SET enable_nestloop = off SET enable_hashjoin = on SET enable_seqscan = on AS $$
  WITH routes AS MATERIALIZED (
    SELECT s.n::int || ' ' || p.protocol AS list, s.n::int AS spec, p.protocol, r.i - 1 AS i, r.v
    FROM unnest(specs) WITH ORDINALITY s (spec, n), (VALUES ('http'), ('tls'), ('tcp')) p (protocol), jsonb_array_elements(CASE WHEN s.spec -> p.protocol -> 1 IS NOT NULL THEN s.spec -> p.protocol END) WITH ORDINALITY r (v, i)
  ), matches AS MATERIALIZED (
    SELECT r.list, r.i, m.j, r.v ? 'delegate' AS delegates, u.path, u.path LIKE 'prefix:%' AS is_prefix, char_length(u.path) AS length, m.v -> 'ignoreUriCase' IS NOT DISTINCT FROM 'true' AND u.path <> 'prefix:' AS caseless,
      CASE WHEN c.v = '{}' THEN c.v ELSE mesh_internal.conditions_of(c.v) END AS conditions
    FROM routes r, jsonb_array_elements(CASE WHEN r.v -> 'match' -> 0 IS NOT NULL THEN r.v -> 'match' ELSE '[{}]' END) WITH ORDINALITY m (v, j),
      LATERAL (SELECT m.v - '{name,statPrefix,uri,ignoreUriCase}'::text[] AS v) c,
      LATERAL (SELECT coalesce('prefix:' || CASE m.v #>> '{uri,prefix}' WHEN '/' THEN '' ELSE m.v #>> '{uri,prefix}' END, 'exact:' || (m.v #>> '{uri,exact}'),
        CASE WHEN m.v #>> '{uri,regex}' IN ('.*', '/.*') THEN 'prefix:' ELSE 'regex:' || (m.v #>> '{uri,regex}') END, 'prefix:') AS path OFFSET 0) w,
      LATERAL (SELECT CASE WHEN m.v -> 'ignoreUriCase' = 'true' AND w.path NOT LIKE 'regex:%' THEN lower(w.path) ELSE w.path END AS path OFFSET 0) u
  ), first AS MATERIALIZED (
    SELECT m.list, m.conditions, m.path, m.caseless, m.is_prefix, m.length, min(m.i) AS i FROM matches m WHERE NOT m.delegates GROUP BY m.list, m.conditions, m.path, m.caseless, m.is_prefix, m.length
  ), different AS MATERIALIZED (
    SELECT d.list, d.conditions, count(*) OVER (PARTITION BY d.list) AS n FROM (SELECT DISTINCT m.list, m.conditions FROM matches m) d
  ), included AS MATERIALIZED (
    SELECT a.list, a.conditions AS wider, b.conditions FROM different a JOIN different b ON b.list = a.list AND b.conditions @> a.conditions WHERE a.n <= 200 OR a.conditions IN (b.conditions, '{}')
  ), sought AS (
    SELECT m.list, m.i, m.j, m.conditions, m.caseless, m.path FROM matches m
    UNION
    SELECT m.list, m.i, m.j, m.conditions, m.caseless AND l.length > 7, 'prefix:' || left(substr(m.path, strpos(m.path, ':') + 1), l.length - 7)
    FROM matches m JOIN (SELECT DISTINCT f.list, f.length FROM first f WHERE f.is_prefix) l ON l.list = m.list
    WHERE l.length = 7 OR m.path NOT LIKE 'regex:%' AND l.length - 7 <= char_length(substr(m.path, strpos(m.path, ':') + 1))
  ), covered AS (
    SELECT s.list, s.i, s.j, min(f.i) AS by FROM sought s JOIN included c ON c.list = s.list AND c.conditions = s.conditions
      JOIN first f ON f.list = s.list AND f.path = s.path AND f.caseless = s.caseless AND f.conditions = c.wider AND f.i < s.i
    GROUP BY s.list, s.i, s.j
  ), unreachable AS (
    SELECT m.list, m.i, min(c.by) AS first, max(c.by) AS last FROM matches m LEFT JOIN covered c USING (list, i, j) GROUP BY m.list, m.i HAVING bool_and(c.by IS NOT NULL)
  )
  SELECT r.spec, format('spec.%s[%s]', r.protocol, r.i), r.v, format('%s is never reached: %s', coalesce('the route "' || (r.v ->> 'name') || '"', 'the route'),
      CASE WHEN u.first = u.last THEN coalesce('the route "' || (b.v ->> 'name') || '"', 'a route') || ' before it matches all that it does' ELSE 'routes before it match all that it does' END),
    format('put it before spec.%s[%s], or let that match less', r.protocol, u.first)
  FROM unreachable u JOIN routes r USING (list, i) JOIN routes b ON b.list = u.list AND b.i = u.first ORDER BY r.spec, r.protocol, r.i
$$;

-- may_be_unreachable is false if unreachable_routes surely lists nothing, which saves most specs that
-- millisecond: no earlier match covers the first match of a later route. It is true for long lists.
CREATE OR REPLACE FUNCTION mesh_internal.may_be_unreachable(spec jsonb) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  routes  jsonb;
  later   jsonb;
  earlier jsonb;
  left_to_compare int := 50;
BEGIN
  FOREACH routes IN ARRAY ARRAY[spec -> 'http', spec -> 'tls', spec -> 'tcp'] LOOP
    CONTINUE WHEN routes -> 1 IS NULL;
    FOR n IN 1 .. jsonb_array_length(routes) - 1 LOOP
      later := coalesce(routes #> ARRAY[n::text, 'match', '0'], '{}');
      FOR e IN 0 .. n - 1 LOOP
        CONTINUE WHEN routes -> e ? 'delegate';
        FOR m IN 0 .. CASE WHEN routes -> e -> 'match' -> 1 IS NOT NULL THEN jsonb_array_length(routes -> e -> 'match') - 1 ELSE 0 END LOOP
          earlier := coalesce(routes -> e -> 'match' -> m, '{}');
          IF left_to_compare = 0 OR mesh_internal.may_cover(earlier, later) THEN
            RETURN true;
          END IF;
          left_to_compare := left_to_compare - 1;
        END LOOP;
      END LOOP;
    END LOOP;
  END LOOP;
  RETURN false;
END $$;

-- may_cover is false if a match surely does not cover a later one. What is empty asks for nothing.
CREATE OR REPLACE FUNCTION mesh_internal.may_cover(earlier jsonb, later jsonb) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  RETURN earlier::text ~ '\{\}|\[\]|""|null'
    OR earlier - '{name,statPrefix,uri,ignoreUriCase}'::text[] <@ later
      AND CASE
        WHEN earlier #> '{uri,prefix}' IS NOT NULL THEN earlier #>> '{uri,prefix}' = '/' OR starts_with(lower(coalesce(later #>> '{uri,prefix}', later #>> '{uri,exact}', '')), lower(earlier #>> '{uri,prefix}'))
        WHEN earlier #> '{uri,exact}' IS NOT NULL THEN lower(earlier #>> '{uri,exact}') IS NOT DISTINCT FROM lower(later #>> '{uri,exact}')
        WHEN earlier #> '{uri,regex}' IS NOT NULL THEN earlier #>> '{uri,regex}' IN ('.*', '/.*', later #>> '{uri,regex}')
        ELSE true END;
END $$;

-- find_unreachable lists those of one VirtualService, or of all. Many are looked at at once.
CREATE OR REPLACE FUNCTION mesh_internal.find_unreachable(of_namespace text, of_name text) RETURNS SETOF mesh_internal.link_problem
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  r     record;
  keys  jsonb[] := '{}';
  specs jsonb[] := '{}';
  size  int     := 0;
BEGIN
  FOR r IN
    SELECT e.api_group, e.namespace, e.name, e.spec FROM mesh_internal.every_resource e
    WHERE e.kind = 'VirtualService' AND (of_name IS NULL OR e.namespace = of_namespace AND e.name = of_name)
      AND mesh_internal.may_be_unreachable(e.spec)
      AND (e.own OR NOT mesh_internal.is_outranked(e.kind, e.api_group, e.namespace, e.name, e.registry))
  LOOP
    keys := keys || to_jsonb(ARRAY[r.api_group, r.namespace, r.name]);
    specs := specs || r.spec;
    size := size + pg_column_size(r.spec);
    IF cardinality(specs) = 1000 OR size > 4000000 THEN
      RETURN QUERY SELECT * FROM mesh_internal.unreachable_among(keys, specs);
      keys := '{}';
      specs := '{}';
      size := 0;
    END IF;
  END LOOP;
  RETURN QUERY SELECT * FROM mesh_internal.unreachable_among(keys, specs);
END $$;

CREATE OR REPLACE FUNCTION mesh_internal.unreachable_among(keys jsonb[], specs jsonb[]) RETURNS SETOF mesh_internal.link_problem
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT 'warning', 'unreachable-route', 'VirtualService', keys[u.spec] ->> 0, keys[u.spec] ->> 1, keys[u.spec] ->> 2, u.path, u.message, u.hint FROM mesh_internal.unreachable_routes(VARIADIC specs) u
$$;

-- new_unreachable lists the routes that a transaction has put where they are not reached.
CREATE OR REPLACE FUNCTION mesh_internal.new_unreachable(of bigint) RETURNS mesh_internal.link_problem[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN ARRAY(SELECT ('warning', 'unreachable-route', c.kind, c.api_group, c.namespace, c.name, u.path, u.message, u.hint)::mesh_internal.link_problem
    FROM (SELECT c.* FROM mesh_internal.changes c WHERE c.transaction_id = of AND c.kind = 'VirtualService' AND mesh_internal.may_be_unreachable(c.after_spec)
        AND mesh_internal.route_matches(c.after_spec) IS DISTINCT FROM mesh_internal.route_matches(c.before_spec) OFFSET 0) c, mesh_internal.unreachable_routes(c.after_spec) u
    WHERE NOT EXISTS (SELECT FROM mesh_internal.unreachable_routes(c.before_spec) was WHERE was.route = u.route)
    LIMIT 1000);
END $$;
