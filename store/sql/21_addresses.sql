-- Syntaxes that no pattern can express: addresses, and keys.

-- is_ipv6 counts groups of four digits: eight, or fewer with one "::". The last two may be written
-- as an IPv4 address, and a zone may follow.
CREATE OR REPLACE FUNCTION mesh_internal.is_ipv6(v text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  address text := split_part(v, '%', 1);
  tail    text := substring(address FROM '[^:]*$');
  groups  int;
BEGIN
  IF strpos(v, '%') = length(v) THEN -- a zone without a name
    RETURN false;
  END IF;
  IF strpos(tail, '.') > 0 THEN
    IF NOT mesh_internal.is_ip(tail) THEN
      RETURN false;
    END IF;
    address := left(address, length(address) - length(tail)) || '0:0';
  END IF;
  IF address !~ '^([0-9A-Fa-f]{1,4}(:[0-9A-Fa-f]{1,4})*)?(::([0-9A-Fa-f]{1,4}(:[0-9A-Fa-f]{1,4})*)?)?$' THEN
    RETURN false;
  END IF;
  groups := cardinality(array_remove(string_to_array(address, ':'), ''));
  RETURN CASE WHEN strpos(address, '::') > 0 THEN groups < 8 ELSE groups = 8 END;
END $$;

-- is_ip reports whether a string is an IP address, v4 or v6, as the programs read it.
CREATE OR REPLACE FUNCTION mesh_internal.is_ip(v text) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE WHEN strpos(v, ':') > 0 THEN mesh_internal.is_ipv6(v)
    ELSE v ~ '^((25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])\.){3}(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])$' END
$$;

-- is_cidr reports whether a string is an IP address or a range of addresses.
CREATE OR REPLACE FUNCTION mesh_internal.is_cidr(v text) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE WHEN strpos(v, '/') = 0 THEN mesh_internal.is_ip(v)
    ELSE v ~ '^[^%/]+/(0|[1-9][0-9]{0,2})$' AND mesh_internal.is_ip(split_part(v, '/', 1))
      AND split_part(v, '/', 2)::int <= CASE WHEN strpos(v, ':') > 0 THEN 128 ELSE 32 END END
$$;

-- is_address reports whether a workload can listen there: an IP address, a host name, or the path
-- of a socket.
CREATE OR REPLACE FUNCTION mesh_internal.is_address(v text) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE WHEN v LIKE 'unix://%' THEN v ~ '^unix://[@/]' AND right(v, 1) <> '/'
    ELSE mesh_internal.is_ip(v) OR length(v) <= 255
      AND v ~ '^[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?(\.[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)*\.?$' AND v !~ '[^.]{64}|(^|\.)[0-9]+$' END
$$;

-- test_condition_addresses requires that conditions about addresses compare with addresses.
CREATE OR REPLACE FUNCTION mesh_internal.test_condition_addresses(v jsonb) RETURNS SETOF mesh_internal.problem
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT format('%s[%s]', list, i - 1), format('"%s" is not an IP address or range', value), NULL
  FROM (VALUES (1, 'values'), (2, 'notValues')) AS l (n, list),
    jsonb_array_elements_text(CASE jsonb_typeof(v -> list) WHEN 'array' THEN v -> list ELSE '[]' END) WITH ORDINALITY AS e (value, i)
  WHERE NOT mesh_internal.is_cidr(value)
  ORDER BY n, i
$$;

-- is_jwks reports whether a string is a JSON Web Key Set, or a single key.
CREATE OR REPLACE FUNCTION mesh_internal.is_jwks(v text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  found jsonb;
BEGIN
  found := v;
  RETURN CASE
    WHEN jsonb_typeof(found) <> 'object' THEN false
    WHEN NOT found ? 'keys' THEN mesh_internal.is_jwk(found)
    WHEN jsonb_typeof(found -> 'keys') = 'array' THEN (SELECT coalesce(bool_and(mesh_internal.is_jwk(key)), true) FROM jsonb_array_elements(found -> 'keys') key)
    ELSE jsonb_typeof(found -> 'keys') = 'null' END;
EXCEPTION WHEN data_exception THEN -- it is no JSON
  RETURN false;
END $$;

CREATE OR REPLACE FUNCTION mesh_internal.is_jwk(key jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce((SELECT bool_and(coalesce(jsonb_typeof(key -> member) = 'string' AND key ->> member <> '', false))
    FROM (VALUES ('RSA', 'n'), ('RSA', 'e'), ('EC', 'crv'), ('EC', 'x'), ('EC', 'y'), ('OKP', 'crv'), ('OKP', 'x'), ('oct', 'k')) AS needs (kty, member)
    WHERE jsonb_typeof(key) = 'object' AND kty = key ->> 'kty'), false)
$$;
