-- Secrets are checked and stamped as they are written. No message repeats a value, because messages
-- reach logs.

-- secret_data encodes plain values as base64.
CREATE OR REPLACE FUNCTION mesh.secret_data(plain jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(jsonb_object_agg(key, replace(encode(convert_to(value, 'UTF8'), 'base64'), E'\n', '')), '{}') FROM jsonb_each_text(plain)
$$;

COMMENT ON FUNCTION mesh.secret_data IS 'Makes the data of a secret from an object of plain texts, such as {"tls.crt": "-----BEGIN CERTIFICATE-----…"}.';

-- is_sealed reports whether mcp-server has encrypted a value.
CREATE OR REPLACE FUNCTION mesh_internal.is_sealed(value text) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT value ~ '^pgmesh:v1:[0-9a-f]{16}:[A-Za-z0-9+/]+={0,2}$'
$$;

-- secret_text decodes a value; NULL if it is not base64. Bytes that are not text become escapes.
CREATE OR REPLACE FUNCTION mesh_internal.secret_text(value text) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN encode(decode(value, 'base64'), 'escape');
EXCEPTION WHEN data_exception THEN
  RETURN NULL;
END $$;

-- certificates_of decodes the certificates in a value.
CREATE OR REPLACE FUNCTION mesh_internal.certificates_of(data jsonb, VARIADIC names text[]) RETURNS SETOF bytea
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT b FROM unnest(names) n, mesh_internal.pem_blocks(mesh_internal.secret_text(data ->> n), 'CERTIFICATE') b
$$;

-- names_registries reports whether a text is a configuration of Docker's that names a registry.
CREATE OR REPLACE FUNCTION mesh_internal.names_registries(plain text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN coalesce(jsonb_path_exists(plain::jsonb, 'strict $.auths.* ? (@.type() == "object")', silent => true), false);
EXCEPTION WHEN data_exception THEN
  RETURN false;
END $$;

-- value_problems returns what is wrong with one value of a secret. Public values are not encrypted,
-- because their expiry is watched.
CREATE OR REPLACE FUNCTION mesh_internal.value_problems(name text, value jsonb) RETURNS SETOF mesh_internal.problem
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  path   text := mesh_internal.member_path('data', name);
  public boolean := name IN ('tls.crt', 'cert', 'ca.crt', 'cacert');
  plain  text;
BEGIN
  IF name !~ '^[-._A-Za-z0-9]{1,253}$' THEN
    RETURN NEXT (path, 'is not a valid key', 'at most 253 letters, digits, "-", "_" and "."')::mesh_internal.problem;
  ELSIF jsonb_typeof(value) <> 'string' THEN
    RETURN NEXT (path, 'must be a string of base64', NULL)::mesh_internal.problem;
  ELSIF mesh_internal.is_sealed(value #>> '{}') THEN
    IF public THEN
      RETURN NEXT (path, 'is encrypted, which certificates need not be', 'write it as base64 of PEM')::mesh_internal.problem;
    END IF;
  ELSE
    plain := mesh_internal.secret_text(value #>> '{}');
    IF plain IS NULL THEN
      RETURN NEXT (path, 'is not base64', 'mesh.secret_data makes it of plain text; in a document, stringData takes that')::mesh_internal.problem;
    ELSIF public AND NOT EXISTS (SELECT FROM mesh_internal.pem_blocks(plain, 'CERTIFICATE')) THEN
      RETURN NEXT (path, 'has no certificate', 'write PEM, which begins with -----BEGIN CERTIFICATE-----')::mesh_internal.problem;
    ELSIF public AND EXISTS (SELECT FROM mesh_internal.pem_blocks(plain, 'CERTIFICATE') b WHERE (mesh_internal.validity(b)).not_after IS NULL) THEN
      RETURN NEXT (path, 'has a certificate that cannot be read', 'write it again as its authority gave it')::mesh_internal.problem;
    ELSIF name IN ('tls.key', 'key') AND plain ~ '-----BEGIN ENCRYPTED PRIVATE KEY-----|Proc-Type: 4,ENCRYPTED' THEN
      RETURN NEXT (path, 'is encrypted with a passphrase, which no gateway knows', 'decrypt it first: openssl pkey -in FILE')::mesh_internal.problem;
    ELSIF name IN ('tls.key', 'key') AND NOT EXISTS (
      SELECT FROM unnest('{PRIVATE KEY,RSA PRIVATE KEY,EC PRIVATE KEY}'::text[]) label, mesh_internal.pem_blocks(plain, label)) THEN
      RETURN NEXT (path, 'has no private key', 'write PEM, which begins with -----BEGIN PRIVATE KEY-----')::mesh_internal.problem;
    ELSIF name = '.dockerconfigjson' AND NOT mesh_internal.names_registries(plain) THEN
      RETURN NEXT (path, 'names no registry', 'write {"auths": {"REGISTRY": {"username": "NAME", "password": "PASSWORD"}}}, as docker login does')::mesh_internal.problem;
    ELSIF name IN ('tls.key', 'key', '.dockerconfigjson') AND mesh.setting('encrypted_secrets') = 'on' THEN
      RETURN NEXT (path, 'is not encrypted, as the setting encrypted_secrets demands', 'write it through mcp-server, which encrypts it')::mesh_internal.problem;
    END IF;
  END IF;
END $$;

-- secret_problems returns what is wrong with a secret.
CREATE OR REPLACE FUNCTION mesh_internal.secret_problems(type text, data jsonb) RETURNS SETOF mesh_internal.problem
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  pair text[];
BEGIN
  IF (type IN ('kubernetes.io/tls', 'kubernetes.io/dockerconfigjson', 'Opaque')) IS NOT TRUE THEN
    RETURN NEXT ('type', 'is not one that is known here', 'write kubernetes.io/tls, kubernetes.io/dockerconfigjson or Opaque')::mesh_internal.problem;
  END IF;
  IF type = 'kubernetes.io/dockerconfigjson' AND (data ? '.dockerconfigjson') IS NOT TRUE THEN
    RETURN NEXT (mesh_internal.member_path('data', '.dockerconfigjson'), 'is missing', NULL)::mesh_internal.problem;
  END IF;
  IF jsonb_typeof(data) IS DISTINCT FROM 'object' THEN
    RETURN NEXT ('data', 'must be an object', NULL)::mesh_internal.problem;
    RETURN;
  ELSIF length(data::text) > 1048576 THEN -- which bounds what is sent, too
    RETURN NEXT ('data', 'is larger than 1 MiB', 'a certificate with its chain has a few KiB')::mesh_internal.problem;
    RETURN;
  END IF;
  RETURN QUERY SELECT p.* FROM jsonb_each(data) d, mesh_internal.value_problems(d.key, d.value) p;
  FOREACH pair SLICE 1 IN ARRAY '{{tls.crt,tls.key},{cert,key}}'::text[][] LOOP
    IF data ? pair[1] AND NOT data ? pair[2] OR type = 'kubernetes.io/tls' AND pair[1] = 'tls.crt' AND NOT data ? pair[2] THEN
      RETURN NEXT (mesh_internal.member_path('data', pair[2]), 'is missing', NULL)::mesh_internal.problem;
    END IF;
    IF data ? pair[2] AND NOT data ? pair[1] OR type = 'kubernetes.io/tls' AND pair[1] = 'tls.crt' AND NOT data ? pair[1] THEN
      RETURN NEXT (mesh_internal.member_path('data', pair[1]), 'is missing', NULL)::mesh_internal.problem;
    END IF;
  END LOOP;
END $$;

-- name_problems returns what is wrong with the name of a secret.
CREATE OR REPLACE FUNCTION mesh_internal.name_problems(namespace text, name text) RETURNS SETOF mesh_internal.problem
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF mesh_internal.is_name(name) IS NOT TRUE THEN
    RETURN NEXT ('metadata.name', format('"%s" is not a valid name', name), mesh_internal.name_hint())::mesh_internal.problem;
  END IF;
  IF (char_length(namespace) <= 63 AND namespace ~ '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') IS NOT TRUE THEN
    RETURN NEXT ('metadata.namespace', format('"%s" is not a valid namespace', namespace),
      'at most 63 lower-case letters, digits and "-", the first and the last a letter or digit')::mesh_internal.problem;
  END IF;
END $$;

-- digests_of tells values apart. The salt belongs to the installation, so nobody can guess a value
-- and try it.
CREATE OR REPLACE FUNCTION mesh_internal.digests_of(data jsonb) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(jsonb_object_agg(key, substr(encode(sha256(convert_to((SELECT secret FROM mesh_internal.installation)::text || key || ' ' || value, 'UTF8')), 'hex'), 1, 24)), '{}')
  FROM jsonb_each_text(data)
$$;

-- check_secret runs before Postgres's own checks, whose messages would show the row.
CREATE OR REPLACE FUNCTION mesh_internal.check_secret() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  problems mesh_internal.problem[] := ARRAY(SELECT p FROM mesh_internal.name_problems(NEW.namespace, NEW.name) p
    UNION ALL SELECT p FROM mesh_internal.secret_problems(NEW.type, NEW.data) p
    UNION ALL SELECT ('metadata.labels', 'must be an object of strings', NULL)::mesh_internal.problem
      WHERE jsonb_typeof(NEW.labels) IS DISTINCT FROM 'object' OR jsonb_path_exists(NEW.labels, '$.* ? (@.type() != "string")')
    UNION ALL SELECT (format('serviceAccounts[%s]', i - 1), format('%s cannot be a service account', coalesce(quote_literal(a), 'NULL')),
        'at most 253 letters, digits, "-", "." and "_"; write * for all gateways of the namespace')::mesh_internal.problem
      FROM unnest(NEW.service_accounts) WITH ORDINALITY s (a, i) WHERE (a ~ '^([-._A-Za-z0-9]{1,253}|\*)$') IS NOT TRUE
    UNION ALL SELECT ('serviceAccounts', 'names no gateway that is given the private key',
        'name the service accounts of the gateways (mcp-client secret create --service-account, or serviceAccounts: [NAME] beside data), or * for whatever machine of the namespace calls itself a gateway; the setting named_gateways demands it')::mesh_internal.problem
      WHERE NEW.service_accounts = '{}' AND NEW.data ?| '{tls.key,key}' AND mesh.setting('named_gateways', NEW.namespace) = 'on');
BEGIN
  IF problems <> '{}' THEN
    PERFORM mesh_internal.refuse('23514', 'Secret', NEW.namespace, NEW.name, problems[:20]);
  END IF;
  SELECT max(v.not_before), min(v.not_after) INTO NEW.not_before, NEW.not_after
    FROM mesh_internal.certificates_of(NEW.data, 'tls.crt', 'cert') c, mesh_internal.validity(c) v;
  IF NEW.not_after IS NULL THEN
    SELECT min(v.not_before), max(v.not_after) INTO NEW.not_before, NEW.not_after
      FROM mesh_internal.certificates_of(NEW.data, 'ca.crt', 'cacert') c, mesh_internal.validity(c) v;
  END IF;
  NEW.service_accounts := ARRAY(SELECT DISTINCT a COLLATE "C" FROM unnest(NEW.service_accounts) a ORDER BY 1);
  NEW.digests := mesh_internal.digests_of(NEW.data);
  NEW.author := mesh_internal.author();
  NEW.created_at := now();
  NEW.updated_at := now();
  IF TG_OP = 'UPDATE' THEN
    IF (OLD.namespace, OLD.name) = (NEW.namespace, NEW.name) THEN
      NEW.created_at := OLD.created_at;
    END IF;
    IF (OLD.namespace, OLD.name, OLD.type, OLD.data, OLD.labels, OLD.service_accounts) = (NEW.namespace, NEW.name, NEW.type, NEW.data, NEW.labels, NEW.service_accounts) THEN
      NEW.author := OLD.author;
      NEW.updated_at := OLD.updated_at;
    END IF;
  END IF;
  RETURN NEW;
END $$;

DROP TRIGGER IF EXISTS check_secret ON mesh.secrets;
CREATE TRIGGER check_secret BEFORE INSERT OR UPDATE ON mesh.secrets FOR EACH ROW EXECUTE FUNCTION mesh_internal.check_secret();

CREATE OR REPLACE FUNCTION mesh_internal.refuse_truncate_of_secrets() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM mesh_internal.refuse('MS003', NULL, NULL, NULL, '', 'mesh.secrets cannot be truncated, for no server would notice', 'write DELETE FROM mesh.secrets');
  RETURN NULL;
END $$;

DROP TRIGGER IF EXISTS refuse_truncate ON mesh.secrets;
CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON mesh.secrets FOR EACH STATEMENT EXECUTE FUNCTION mesh_internal.refuse_truncate_of_secrets();
