-- What can be told of certificates in SQL: whether a text is PEM, and from when to when a certificate is valid. Whether a key belongs to a
-- certificate is found out by mcp-server. No message here repeats anything of what was read.

-- pem_blocks decodes the blocks of a label in a text of PEM, in their order.
CREATE OR REPLACE FUNCTION mesh.pem_blocks(pem text, label text) RETURNS SETOF bytea
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN QUERY SELECT decode(regexp_replace(m[1], '\s', '', 'g'), 'base64')
    FROM regexp_matches(pem, format('-----BEGIN %1$s-----([A-Za-z0-9+/=\s]+)-----END %1$s-----', label), 'g') m;
EXCEPTION WHEN data_exception THEN
  RETURN;
END $$;

-- der_at reads the head of the value that stands at a place of an encoding in DER: its tag, where its content begins, and where it has ended.
CREATE OR REPLACE FUNCTION mesh.der_at(der bytea, place int, OUT tag int, OUT content int, OUT past int)
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  size int := get_byte(der, place + 1);
BEGIN
  tag := get_byte(der, place);
  content := place + 2;
  IF size > 127 THEN -- so many bytes of it follow
    size := 0;
    WHILE content < place + 2 + get_byte(der, place + 1) - 128 LOOP
      size := size * 256 + get_byte(der, content);
      content := content + 1;
    END LOOP;
  END IF;
  past := content + size;
END $$;

-- der_time reads a UTCTime, whose years end in 2049, or a GeneralizedTime.
CREATE OR REPLACE FUNCTION mesh.der_time(der bytea, place int) RETURNS timestamptz
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  head   record := mesh.der_at(der, place);
  digits text := encode(substring(der FROM head.content + 1 FOR head.past - head.content - 1), 'escape');
BEGIN
  IF head.tag = 23 THEN
    digits := CASE WHEN left(digits, 2) >= '50' THEN '19' ELSE '20' END || digits;
  END IF;
  RETURN make_timestamptz(substr(digits, 1, 4)::int, substr(digits, 5, 2)::int, substr(digits, 7, 2)::int,
    substr(digits, 9, 2)::int, substr(digits, 11, 2)::int, substr(digits, 13, 2)::int, 'UTC');
END $$;

-- validity is from when to when a certificate is valid; NULL where the bytes are none. RFC 5280 has the order of the fields: within the
-- sequence there is that of what is signed, and in it the version, which may be left out, the serial number, the algorithm, the issuer, and the times.
CREATE OR REPLACE FUNCTION mesh.validity(der bytea, OUT not_before timestamptz, OUT not_after timestamptz)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  head record;
BEGIN
  head := mesh.der_at(der, (mesh.der_at(der, 0)).content);
  head := mesh.der_at(der, head.content);
  IF head.tag = 160 THEN
    head := mesh.der_at(der, head.past);
  END IF;
  FOR skipped IN 1..3 LOOP
    head := mesh.der_at(der, head.past);
  END LOOP;
  not_before := mesh.der_time(der, head.content);
  not_after := mesh.der_time(der, (mesh.der_at(der, head.content)).past);
EXCEPTION WHEN data_exception OR array_subscript_error OR program_limit_exceeded THEN
  not_before := NULL;
  not_after := NULL;
END $$;
