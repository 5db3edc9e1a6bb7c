-- What the programs know about kinds, as data. A migration fills the tables at its end.

-- nearest returns the known word that is most like a mistyped one: the first with the smallest
-- Levenshtein distance, ignoring case, or NULL if none is near. The programs use the same measure.
CREATE OR REPLACE FUNCTION mesh_internal.nearest(word text, known text[]) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  nearest   text;
  best      int := CASE WHEN char_length(word) < 5 THEN 1 ELSE greatest(2, char_length(word) / 3) END + 1;
  candidate text;
  apart     int;
BEGIN
  FOREACH candidate IN ARRAY known LOOP
    CONTINUE WHEN abs(char_length(candidate) - char_length(word)) >= best;
    apart := mesh_internal.distance(lower(word), lower(candidate));
    IF apart < best THEN
      nearest := candidate;
      best := apart;
    END IF;
  END LOOP;
  RETURN nearest;
END $$;

-- distance returns the Levenshtein distance of two words. A common beginning and end cost little,
-- because names of hosts share much.
CREATE OR REPLACE FUNCTION mesh_internal.distance(one text, other text) RETURNS int
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  distances int[];
  diagonal  int;
  above     int;
BEGIN
  WHILE one <> '' AND left(one, 1) = left(other, 1) LOOP
    one := substr(one, 2);
    other := substr(other, 2);
  END LOOP;
  WHILE one <> '' AND right(one, 1) = right(other, 1) LOOP
    one := left(one, -1);
    other := left(other, -1);
  END LOOP;
  distances := ARRAY(SELECT generate_series(0, char_length(other)));
  FOR i IN 1..char_length(one) LOOP
    diagonal := distances[1];
    distances[1] := i;
    FOR j IN 1..char_length(other) LOOP
      above := distances[j + 1];
      IF substr(one, i, 1) <> substr(other, j, 1) THEN
        diagonal := diagonal + 1;
      END IF;
      distances[j + 1] := least(diagonal, above + 1, distances[j] + 1);
      diagonal := above;
    END LOOP;
  END LOOP;
  RETURN distances[char_length(other) + 1];
END $$;

-- hint names the known word that is near, or else lists all of them.
CREATE OR REPLACE FUNCTION mesh_internal.hint(word text, known text[], prefix text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce('did you mean "' || mesh_internal.nearest(word, known) || '"?', prefix || array_to_string(known, ', '))
$$;
