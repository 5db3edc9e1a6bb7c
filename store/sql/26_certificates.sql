-- What SQL can tell of certificates: whether a text is PEM, and when a certificate is valid.
-- mcp-server checks whether a key fits a certificate. No message here repeats anything that was
-- read.

-- pem_blocks decodes the blocks with a label in a PEM text, in order.
CREATE OR REPLACE FUNCTION mesh_internal.pem_blocks(pem text, label text) RETURNS SETOF bytea
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN QUERY SELECT decode(regexp_replace(m[1], '\s', '', 'g'), 'base64')
    FROM regexp_matches(pem, format('-----BEGIN %1$s-----([A-Za-z0-9+/=\s]+)-----END %1$s-----', label), 'g') m;
EXCEPTION WHEN data_exception THEN
  RETURN;
END $$;

-- der_at reads the head of the DER value at a position: its tag, where its content begins, and
-- where it ends.
CREATE OR REPLACE FUNCTION mesh_internal.der_at(der bytea, place int, OUT tag int, OUT content int, OUT past int)
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
CREATE OR REPLACE FUNCTION mesh_internal.der_time(der bytea, place int) RETURNS timestamptz
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  head   record := mesh_internal.der_at(der, place);
  digits text := encode(substring(der FROM head.content + 1 FOR head.past - head.content - 1), 'escape');
BEGIN
  IF head.tag = 23 THEN
    digits := CASE WHEN left(digits, 2) >= '50' THEN '19' ELSE '20' END || digits;
  END IF;
  RETURN make_timestamptz(substr(digits, 1, 4)::int, substr(digits, 5, 2)::int, substr(digits, 7, 2)::int,
    substr(digits, 9, 2)::int, substr(digits, 11, 2)::int, substr(digits, 13, 2)::int, 'UTC');
END $$;

-- validity returns when a certificate is valid; NULL if the bytes are no certificate. RFC 5280 has
-- the order of the fields: version (optional), serial number, algorithm, issuer, times.
CREATE OR REPLACE FUNCTION mesh_internal.validity(der bytea, OUT not_before timestamptz, OUT not_after timestamptz)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  head record;
BEGIN
  head := mesh_internal.der_at(der, (mesh_internal.der_at(der, 0)).content);
  head := mesh_internal.der_at(der, head.content);
  IF head.tag = 160 THEN
    head := mesh_internal.der_at(der, head.past);
  END IF;
  FOR skipped IN 1..3 LOOP
    head := mesh_internal.der_at(der, head.past);
  END LOOP;
  not_before := mesh_internal.der_time(der, head.content);
  not_after := mesh_internal.der_time(der, (mesh_internal.der_at(der, head.content)).past);
EXCEPTION WHEN data_exception OR array_subscript_error OR program_limit_exceeded THEN
  not_before := NULL;
  not_after := NULL;
END $$;

-- is_authority reports whether a certificate says that it belongs to an authority, in its basic
-- constraints (2.5.29.19), which are among the extensions, the last of the signed fields.
CREATE OR REPLACE FUNCTION mesh_internal.is_authority(der bytea) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  signed record;
  field  record;
  list   record;
  oid    record;
  place  int;
BEGIN
  signed := mesh_internal.der_at(der, (mesh_internal.der_at(der, 0)).content); -- here, where an error is caught
  field := mesh_internal.der_at(der, signed.content);
  WHILE field.tag <> 163 LOOP
    IF field.past >= signed.past THEN
      RETURN false;
    END IF;
    field := mesh_internal.der_at(der, field.past);
  END LOOP;
  list := mesh_internal.der_at(der, field.content);
  place := list.content;
  WHILE place < list.past LOOP
    oid := mesh_internal.der_at(der, (mesh_internal.der_at(der, place)).content);
    IF substring(der FROM oid.content + 1 FOR oid.past - oid.content) = '\x551d13' THEN
      field := mesh_internal.der_at(der, oid.past);
      IF field.tag = 1 THEN -- whether it is critical, which may be left out
        field := mesh_internal.der_at(der, field.past);
      END IF;
      list := mesh_internal.der_at(der, field.content);
      RETURN list.past > list.content AND get_byte(der, list.content) = 1 AND get_byte(der, list.content + 2) <> 0;
    END IF;
    place := (mesh_internal.der_at(der, place)).past;
  END LOOP;
  RETURN false;
EXCEPTION WHEN data_exception OR array_subscript_error OR program_limit_exceeded THEN
  RETURN false;
END $$;

-- authorities_in reads PEM that must have certificates of authorities and nothing else.
CREATE OR REPLACE FUNCTION mesh_internal.authorities_in(what text, pem text) RETURNS SETOF bytea
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  found bytea[] := ARRAY(SELECT b FROM mesh_internal.pem_blocks(left(pem, 65537), 'CERTIFICATE') b);
  wrong text;
  hint  text := 'write the certificates of the authorities as PEM, which begins with -----BEGIN CERTIFICATE-----';
  place int;
BEGIN
  SELECT i INTO place FROM unnest(found) WITH ORDINALITY AS f (der, i) WHERE (mesh_internal.validity(der)).not_after IS NULL OR NOT mesh_internal.is_authority(der) ORDER BY i LIMIT 1;
  IF length(pem) > 65536 THEN
    wrong := 'are larger than 64 KiB';
  ELSIF pem ~ 'PRIVATE KEY-----' THEN
    wrong := 'have a private key among them';
    hint := 'leave it out, and keep it where it was; if others have seen it, replace it';
  ELSIF coalesce(cardinality(found), 0) = 0 THEN
    wrong := 'have no certificate';
  ELSIF (SELECT count(*) FROM regexp_matches(pem, '-----BEGIN ', 'g')) <> cardinality(found) THEN
    wrong := 'have something that cannot be read as a certificate';
  ELSIF place > 0 AND (mesh_internal.validity(found[place])).not_after IS NULL THEN
    wrong := format('have a certificate that cannot be read, number %s', place);
  ELSIF place > 0 THEN
    wrong := format('have a certificate that is none of an authority, number %s', place);
    hint := 'write the certificate that signed it: its basic constraints say CA:TRUE';
  END IF;
  IF wrong IS NOT NULL THEN
    RAISE invalid_parameter_value USING MESSAGE = format('%s %s', what, wrong), HINT = hint;
  END IF;
  RETURN QUERY SELECT * FROM unnest(found);
END $$;
