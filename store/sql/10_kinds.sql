-- What the programs know about kinds, as data: filled from their registry at the end of a migration.

-- nearest finds what somebody meant who mistyped a word: the known word with the smallest Levenshtein distance, letter
-- case aside, the first of equals, NULL if none is near. The programs use the same measure.
CREATE OR REPLACE FUNCTION mesh.nearest(word text, known text[]) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  wanted   text := lower(word);
  length   int := char_length(word);
  nearest  text;
  best     int := CASE WHEN length < 5 THEN 1 ELSE greatest(2, length / 3) END + 1;
  candidate text;
  other    text;
  distances int[];
  diagonal int;
  above    int;
BEGIN
  FOREACH candidate IN ARRAY known LOOP
    other := lower(candidate);
    CONTINUE WHEN abs(char_length(other) - length) >= best;
    distances := ARRAY(SELECT generate_series(0, char_length(other)));
    FOR i IN 1..length LOOP
      diagonal := distances[1];
      distances[1] := i;
      FOR j IN 1..char_length(other) LOOP
        above := distances[j + 1];
        IF substr(wanted, i, 1) <> substr(other, j, 1) THEN
          diagonal := diagonal + 1;
        END IF;
        distances[j + 1] := least(diagonal, above + 1, distances[j] + 1);
        diagonal := above;
      END LOOP;
    END LOOP;
    IF distances[char_length(other) + 1] < best THEN
      nearest := candidate;
      best := distances[char_length(other) + 1];
    END IF;
  END LOOP;
  RETURN nearest;
END $$;

-- hint says which of the known words is near, or else lists them all.
CREATE OR REPLACE FUNCTION mesh.hint(word text, known text[], prefix text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce('did you mean "' || mesh.nearest(word, known) || '"?', prefix || array_to_string(known, ', '))
$$;
