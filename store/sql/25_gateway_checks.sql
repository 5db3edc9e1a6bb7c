-- The rules of the Gateway API that no jsonpath can express: they compare durations, or count.

-- test_timeouts requires that a try takes no longer than its request.
CREATE OR REPLACE FUNCTION mesh_internal.test_timeouts(v jsonb) RETURNS SETOF mesh_internal.problem
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT 'backendRequest', format('must be at most %s, as the whole request, got %s', v ->> 'request', v ->> 'backendRequest'), NULL
  WHERE mesh_internal.nanoseconds(v ->> 'request') <> 0 AND mesh_internal.nanoseconds(v ->> 'backendRequest') > mesh_internal.nanoseconds(v ->> 'request')
$$;

-- test_match_count limits the matches of a route, over all its rules.
CREATE OR REPLACE FUNCTION mesh_internal.test_match_count(v jsonb) RETURNS SETOF mesh_internal.problem
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT 'rules', format('must have at most 128 matches in all, has %s', n), NULL
  FROM (SELECT count(*) FROM jsonb_path_query(v, '$.rules[*].matches[*]')) AS m (n) WHERE n > 128
$$;

-- test_budget_interval and test_rate_interval limit the intervals in which retries are counted.
CREATE OR REPLACE FUNCTION mesh_internal.test_budget_interval(v jsonb) RETURNS SETOF mesh_internal.problem
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT 'interval', 'must be between 1s and 1h, got ' || (v ->> 'interval'), NULL
  WHERE mesh_internal.nanoseconds(v ->> 'interval') NOT BETWEEN 1000000000 AND 3600000000000
$$;

CREATE OR REPLACE FUNCTION mesh_internal.test_rate_interval(v jsonb) RETURNS SETOF mesh_internal.problem
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT 'interval', 'must be more than zero and at most 1h, got ' || (v ->> 'interval'), NULL
  WHERE mesh_internal.nanoseconds(v ->> 'interval') NOT BETWEEN 1 AND 3600000000000
$$;
