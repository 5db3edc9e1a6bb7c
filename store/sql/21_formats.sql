-- The formats of strings. mesh.formats has their patterns; the functions here test what no pattern
-- can.

-- has_function_format calls the function of a format. The programs have them by the same names.
CREATE OR REPLACE FUNCTION mesh_internal.has_function_format(function text, v text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  CASE function
  WHEN 'address' THEN
    RETURN mesh_internal.is_address(v);
  WHEN 'cel' THEN
    RETURN mesh_internal.is_cel(v);
  WHEN 'cidr' THEN
    RETURN mesh_internal.is_cidr(v);
  WHEN 'ip' THEN
    RETURN mesh_internal.is_ip(v);
  WHEN 'jwks' THEN
    RETURN mesh_internal.is_jwks(v);
  WHEN 're2' THEN
    RETURN mesh_internal.is_re2(v);
  END CASE;
END $$;

-- has_format reports whether a string has a format.
CREATE OR REPLACE FUNCTION mesh_internal.has_format(format text, v text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT NOT (coalesce(char_length(v) > x.max, false) OR coalesce(v !~ x.pattern, false) OR coalesce(v ~ x.unlike, false)
      OR char_length(v) > 63 AND coalesce(v ~ x.long, false)
      OR x.function IS NOT NULL AND NOT mesh_internal.has_function_format(x.function, v))
    OR x.other IS NOT NULL AND mesh_internal.has_format(x.other, v)
  FROM mesh.formats x WHERE x.name = format
$$;

-- check_format returns a problem if a string does not have a format.
CREATE OR REPLACE FUNCTION mesh_internal.check_format(format text, v text) RETURNS mesh_internal.problem
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT (NULL, replace(x.reason, '{value}', v), replace(x.hint, '{value}', v))::mesh_internal.problem
  FROM mesh.formats x WHERE x.name = format AND NOT mesh_internal.has_format(format, v)
$$;
