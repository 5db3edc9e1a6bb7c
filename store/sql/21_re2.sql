-- Whether a text is a regular expression in RE2 syntax, as Go's regexp/syntax reads it. What is
-- refused here, Go refuses too. Go also refuses unknown names of Unicode classes (\p{Klingon}),
-- nested repetitions of more than 1000 in all, and expressions nested deeper than 1000 levels.

-- re2_escape reads an escape that means one character, and returns its code and length, or NULL.
CREATE OR REPLACE FUNCTION mesh_internal.re2_escape(rest text) RETURNS int[]
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  digits text;
BEGIN
  digits := substring(rest FROM '^\\(0[0-7]{0,2}|[1-7][0-7]{1,2})');
  IF digits IS NOT NULL THEN
    RETURN ARRAY[(SELECT sum(substr(digits, i, 1)::int * 8 ^ (length(digits) - i))::int FROM generate_series(1, length(digits)) i), 1 + length(digits)];
  END IF;
  digits := coalesce(substring(rest FROM '^\\x([0-9A-Fa-f]{2})'), substring(rest FROM '^\\x\{0*([0-9A-Fa-f]{1,6})\}'));
  IF digits IS NOT NULL THEN
    RETURN CASE WHEN lpad(upper(digits), 6, '0') <= '10FFFF' COLLATE "C"
      THEN ARRAY[('x' || lpad(digits, 8, '0'))::bit(32)::int, length(substring(rest FROM '^\\x([0-9A-Fa-f]{2}|\{[0-9A-Fa-f]+\})')) + 2] END;
  END IF;
  RETURN CASE
    WHEN rest ~ '^\\[aftnrv]' THEN ARRAY[CASE substr(rest, 2, 1) WHEN 'a' THEN 7 WHEN 'f' THEN 12 WHEN 't' THEN 9 WHEN 'n' THEN 10 WHEN 'r' THEN 13 ELSE 11 END, 2]
    WHEN rest ~ '^\\[^A-Za-z0-9]' AND ascii(substr(rest, 2, 1)) < 128 THEN ARRAY[ascii(substr(rest, 2, 1)), 2] END;
END $$;

-- re2_class reads a class in brackets and returns its length, or NULL.
CREATE OR REPLACE FUNCTION mesh_internal.re2_class(class text) RETURNS int
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  rest  text := regexp_replace(class, '^\[\^?', '');
  first boolean := true;
  token text;
  low   int[];
  high  int[];
BEGIN
  WHILE first OR left(rest, 1) <> ']' LOOP
    IF rest = '' THEN
      RETURN NULL;
    END IF;
    first := false;
    token := substring(rest FROM '^(\[:[^]]*?:\]|\\[pP](?:\{[^}]+\}|[A-Za-z])|\\[dswDSW])');
    IF token LIKE '[:%' AND token !~ '^\[:\^?(alnum|alpha|ascii|blank|cntrl|digit|graph|lower|print|punct|space|upper|word|xdigit):\]$' THEN
      RETURN NULL;
    END IF;
    IF token IS NULL THEN
      low := CASE WHEN left(rest, 1) = '\' THEN mesh_internal.re2_escape(rest) ELSE ARRAY[ascii(rest), 1] END;
      token := left(rest, low[2]);
      IF substr(rest, low[2] + 1, 2) ~ '^-[^]]' THEN
        high := CASE WHEN substr(rest, low[2] + 2, 1) = '\' THEN mesh_internal.re2_escape(substr(rest, low[2] + 2)) ELSE ARRAY[ascii(substr(rest, low[2] + 2)), 1] END;
        token := CASE WHEN low[1] <= high[1] THEN left(rest, low[2] + 1 + high[2]) END;
      END IF;
    END IF;
    IF token IS NULL THEN
      RETURN NULL;
    END IF;
    rest := substr(rest, length(token) + 1);
  END LOOP;
  RETURN length(class) - length(rest) + 1;
END $$;

-- re2_group reads the beginning of a group, or a change of flags; NULL if it is neither.
CREATE OR REPLACE FUNCTION mesh_internal.re2_group(rest text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(substring(rest FROM '^\(\?P?<[A-Za-z0-9_]+>'), substring(rest FROM '^\(\?[imsU]*(?:-[imsU]+)?[:)]'), substring(rest FROM '^\((?!\?)'))
$$;

-- re2_atom reads what can be repeated; '' if there is nothing, NULL if it is wrong.
CREATE OR REPLACE FUNCTION mesh_internal.re2_atom(rest text) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  token text := substring(rest FROM '^(?:[^\\[(){*+?|]+|\\Q(?:[^\\]|\\(?!E))*(?:\\E|\\?$)|\\[AbBzdswDSW]|\\[pP](?:\{[^}]+\}|[A-Za-z]))');
BEGIN
  RETURN CASE
    WHEN token IS NOT NULL THEN token
    WHEN left(rest, 1) = '[' THEN left(rest, mesh_internal.re2_class(rest))
    WHEN left(rest, 1) = '\' THEN left(rest, (mesh_internal.re2_escape(rest))[2])
    WHEN left(rest, 1) = '{' AND rest !~ '^\{(0|[1-9][0-9]*)(,(0|[1-9][0-9]*)?)?\}' THEN '{'
    ELSE '' END;
END $$;

CREATE OR REPLACE FUNCTION mesh_internal.is_re2(v text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  rest     text := v;
  depth    int := 0;
  names    text[] := '{}';
  anything boolean := false; -- that could be repeated
  repeated boolean := false; -- already
  token    text;
  bounds   text[];
BEGIN
  IF v ~ '^[^][(){}\\*+?|]*([.][*+][^][(){}\\*+?|]*)*$' THEN
    RETURN true; -- as most are
  END IF;
  WHILE rest <> '' LOOP
    token := mesh_internal.re2_atom(rest);
    IF token <> '' THEN
      anything := anything OR token NOT IN ('\Q\E', '\Q');
      repeated := false;
    ELSIF left(rest, 1) = '(' THEN
      token := mesh_internal.re2_group(rest);
      IF token LIKE '%>' THEN
        IF token ~ ('<(' || array_to_string(names || '-'::text, '|') || ')>$') THEN
          RETURN false;
        END IF;
        names := names || substring(token FROM '<(.*)>');
      END IF;
      depth := depth + (token NOT LIKE '%)')::int;
      anything := anything AND token LIKE '%)';
      repeated := false;
    ELSIF left(rest, 1) IN (')', '|') THEN
      token := left(rest, 1);
      depth := depth - (token = ')')::int;
      anything := token = ')';
      repeated := false;
    ELSIF token = '' THEN
      token := substring(rest FROM '^(?:[*+?]|\{[0-9,]*\})\??');
      bounds := regexp_match(token, '^\{([0-9]+),?([0-9]*)\}');
      IF NOT anything OR repeated OR bounds IS NOT NULL
        AND (length(bounds[1]) > 4 OR length(bounds[2]) > 4 OR greatest(bounds[1]::int, nullif(bounds[2], '')::int) > 1000 OR bounds[1]::int > nullif(bounds[2], '')::int) THEN
        RETURN false;
      END IF;
      repeated := true;
    END IF;
    IF token IS NULL OR depth < 0 THEN
      RETURN false;
    END IF;
    rest := substr(rest, length(token) + 1);
  END LOOP;
  RETURN depth = 0;
END $$;
