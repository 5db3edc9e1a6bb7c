-- Every certificate that is given or refused is a row. Those who give them write the rows in
-- batches.

DROP POLICY IF EXISTS read_granted ON mesh.certificates;
CREATE POLICY read_granted ON mesh.certificates FOR SELECT
  USING ((SELECT mesh_internal.sees_all()) OR namespace <> '' AND namespace = ANY ((SELECT mesh_internal.readable_namespaces())::text[]));

-- neighbourhood_of returns what counts as one address of callers: without the port, and for IPv6
-- the network of 64 bits, which is one customer's.
CREATE OR REPLACE FUNCTION mesh_internal.neighbourhood_of(peer text) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  host text := regexp_replace(peer, '^\[?([^]%]*?)(%[^]]*)?\]?(:[0-9]+)?$', '\1');
BEGIN
  RETURN CASE WHEN family(host::inet) = 4 OR host ILIKE '::ffff:%' THEN host ELSE network(set_masklen(host::inet, 64))::text END;
EXCEPTION WHEN data_exception THEN
  RETURN host;
END $$;

-- alike returns what refusals have in common that share a row. Each server counts separately, so
-- that what it reports again counts once.
CREATE OR REPLACE FUNCTION mesh_internal.alike(server text, refusal text, identity text, enrolment text, credential text, peer text, at timestamptz) RETURNS bytea
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT sha256(convert_to(jsonb_build_array(server, refusal, identity, enrolment, credential, mesh_internal.neighbourhood_of(peer),
    floor(extract(epoch FROM at) / 3600)::bigint)::text, 'UTF8'))
$$;

-- is_strangers_refusal reports whether a stranger can bring about such a refusal. The others need a
-- token or a certificate of the mesh.
CREATE OR REPLACE FUNCTION mesh_internal.is_strangers_refusal(refusal text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$ SELECT refusal NOT IN ('token_expired', 'token_revoked', 'token_used', 'revoked') $$;

-- record_certificates stores a batch. What is reported again counts once. It returns how many rows
-- are new or were counted up.
CREATE OR REPLACE FUNCTION mesh_internal.record_certificates(server text, ids uuid[], times timestamptz[], refusals text[], details text[], identities text[], enrolments text[],
  serials text[], ends timestamptz[], authorities text[], credentials text[], peers text[], key_hashes bytea[], took interval[]) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  recorded bigint;
BEGIN
  PERFORM mesh_internal.require_server('record certificates');
  INSERT INTO mesh.certificates (id, at, server, detail, identity, enrolment, serial, not_after, authority, credential, peer, key_hash, took)
    SELECT u.id, u.at, record_certificates.server, left(u.detail, 1000), left(u.identity, 2048), left(u.enrolment, 200), left(u.serial, 200), u.not_after,
      left(u.authority, 200), left(u.credential, 40), left(u.peer, 200), substring(u.key_hash FROM 1 FOR 64), u.took
    FROM unnest(ids, times, refusals, details, identities, enrolments, serials, ends, authorities, credentials, peers, key_hashes, record_certificates.took)
      AS u (id, at, refusal, detail, identity, enrolment, serial, not_after, authority, credential, peer, key_hash, took)
    WHERE u.refusal IS NULL
    ON CONFLICT (id) DO NOTHING;
  GET DIAGNOSTICS recorded = ROW_COUNT;
  IF num_nonnulls(VARIADIC refusals) > 0 THEN
    recorded := recorded + mesh_internal.record_refusals(server, ids, times, refusals, details, identities, enrolments, credentials, peers, key_hashes, took);
  END IF;
  RETURN recorded;
END $$;

COMMENT ON FUNCTION mesh_internal.record_certificates IS 'Internal. Servers record by it who was given a certificate, and who was refused one.';

-- record_refusals counts the refusals of a batch, each in the row of those like it. A row has the
-- newest, and all details, as far as there is room. A server reports in the order of time, so what
-- is not newer than the row was counted already. Rows are written in a fixed order, so that batches
-- never wait for each other in a circle.
CREATE OR REPLACE FUNCTION mesh_internal.record_refusals(server text, ids uuid[], times timestamptz[], refusals text[], details text[], identities text[], enrolments text[],
  credentials text[], peers text[], key_hashes bytea[], took interval[]) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  recorded bigint;
  fresh    boolean[];
  kind     boolean;
BEGIN
  WITH told AS (
    SELECT u.*, mesh_internal.alike(record_refusals.server, left(u.refusal, 40), left(u.identity, 2048), left(u.enrolment, 200), left(u.credential, 40), u.peer, u.at) AS alike
    FROM unnest(ids, times, refusals, details, identities, enrolments, credentials, peers, key_hashes, record_refusals.took)
      AS u (id, at, refusal, detail, identity, enrolment, credential, peer, key_hash, took)
    WHERE u.refusal IS NOT NULL
  ), news AS (
    SELECT DISTINCT ON (t.alike) t.*, count(*) OVER (PARTITION BY t.alike) AS times, min(t.at) OVER (PARTITION BY t.alike) AS first_at,
      array_agg(t.detail) OVER (PARTITION BY t.alike) AS all_details
    FROM (SELECT DISTINCT ON (id) * FROM told) t LEFT JOIN mesh.certificates known ON known.alike = t.alike
    WHERE known.at IS NULL OR t.at > known.at
    ORDER BY t.alike, t.at DESC
  ), written AS (
    INSERT INTO mesh.certificates AS c (id, at, first_at, times, alike, strangers, server, refusal, detail, identity, enrolment, credential, peer, key_hash, took)
      SELECT n.id, n.at, CASE WHEN n.times > 1 THEN n.first_at END, n.times, n.alike, mesh_internal.is_strangers_refusal(n.refusal), record_refusals.server, left(n.refusal, 40),
        left((SELECT string_agg(DISTINCT d, '; also: ') FROM unnest(n.all_details) d), 1000), left(n.identity, 2048), left(n.enrolment, 200), left(n.credential, 40), left(n.peer, 200), substring(n.key_hash FROM 1 FOR 64), n.took
      FROM news n ORDER BY n.alike
      ON CONFLICT (alike) WHERE alike IS NOT NULL DO UPDATE SET at = greatest(c.at, EXCLUDED.at), first_at = least(c.first_at, c.at, EXCLUDED.first_at, EXCLUDED.at),
        times = c.times + EXCLUDED.times, peer = EXCLUDED.peer, key_hash = EXCLUDED.key_hash, took = EXCLUDED.took,
        detail = CASE WHEN position(EXCLUDED.detail IN c.detail) > 0 THEN c.detail ELSE left(c.detail || '; also: ' || EXCLUDED.detail, 1000) END
      RETURNING c.xmax = 0 AS fresh, c.strangers
  )
  SELECT count(*), array_agg(DISTINCT w.strangers) FILTER (WHERE w.fresh) INTO recorded, fresh FROM written w;
  FOREACH kind IN ARRAY coalesce(fresh, '{}') LOOP
    PERFORM mesh_internal.forget_refusals(kind);
  END LOOP;
  RETURN recorded;
END $$;

COMMENT ON FUNCTION mesh_internal.record_refusals IS 'Internal.';

-- forget_refusals keeps the newest rows of refusals by strangers, or of the others. It does not
-- wait for rows that somebody else deletes.
CREATE OR REPLACE FUNCTION mesh_internal.forget_refusals(of_strangers boolean) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  oldest timestamptz;
BEGIN
  SELECT c.at INTO oldest FROM mesh.certificates c WHERE c.alike IS NOT NULL AND c.strangers = of_strangers
    ORDER BY c.at DESC OFFSET mesh.setting('refusals_max')::bigint LIMIT 1;
  IF FOUND THEN
    DELETE FROM mesh.certificates c WHERE c.id IN (
      SELECT o.id FROM mesh.certificates o WHERE o.alike IS NOT NULL AND o.strangers = of_strangers AND o.at <= oldest FOR UPDATE SKIP LOCKED);
  END IF;
END $$;

COMMENT ON FUNCTION mesh_internal.forget_refusals IS 'Internal.';

-- last_certificates has the newest certificate of each member with a certificate in force.
CREATE OR REPLACE VIEW mesh_internal.last_certificates AS
  SELECT DISTINCT ON (identity, enrolment) namespace, identity, enrolment, at, not_after, serial, authority, server, peer
  FROM mesh.certificates WHERE refusal IS NULL AND not_after > now()
  ORDER BY identity, enrolment, at DESC;

COMMENT ON VIEW mesh_internal.last_certificates IS 'Internal. Read mesh.machines.';

CREATE OR REPLACE VIEW mesh.machines WITH (security_barrier) AS
  SELECT c.namespace, c.identity, c.enrolment, c.at AS issued_at, c.not_after, c.serial, c.authority, c.server, c.peer,
    EXISTS (SELECT FROM mesh.revocations r WHERE r.lifted_at IS NULL AND (r.enrolment = c.enrolment OR r.identity = mesh_internal.path_of(c.identity))) AS revoked
  FROM mesh_internal.last_certificates c
  WHERE (SELECT mesh_internal.sees_all()) OR c.namespace <> '' AND c.namespace = ANY ((SELECT mesh_internal.readable_namespaces())::text[]);

COMMENT ON VIEW mesh.machines IS 'Who has a certificate that is in force: machines, and servers, which have no namespace.';
COMMENT ON COLUMN mesh.machines.namespace IS 'The namespace of the identity; empty for servers.';
COMMENT ON COLUMN mesh.machines.identity IS 'The SPIFFE id.';
COMMENT ON COLUMN mesh.machines.enrolment IS 'The machine, from its joining on. mesh.revoke_machine takes it.';
COMMENT ON COLUMN mesh.machines.issued_at IS 'When its newest certificate was issued.';
COMMENT ON COLUMN mesh.machines.not_after IS 'When the certificate expires.';
COMMENT ON COLUMN mesh.machines.serial IS 'The serial number of the certificate.';
COMMENT ON COLUMN mesh.machines.authority IS 'The fingerprint of the root in mesh.authorities that signed it.';
COMMENT ON COLUMN mesh.machines.server IS 'Who issued the certificate.';
COMMENT ON COLUMN mesh.machines.peer IS 'The address from which it asked.';
COMMENT ON COLUMN mesh.machines.revoked IS 'Whether the member has been revoked.';

-- excess_certificates returns by how many rows the table exceeds the setting. Counting costs a full
-- scan, so it counts only if that may matter.
CREATE OR REPLACE FUNCTION mesh_internal.excess_certificates() RETURNS bigint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  most bigint := mesh.setting('certificates_max')::bigint;
BEGIN
  IF (SELECT c.relpages > 0 AND c.reltuples BETWEEN 0 AND 0.8 * most FROM pg_class c WHERE c.oid = 'mesh.certificates'::regclass) THEN -- without pages nobody has looked yet
    RETURN 0;
  END IF;
  RETURN greatest((SELECT count(*) FROM mesh.certificates) - most, 0);
END $$;

-- prune_certificates deletes a batch of certificates that are too old, and of join tokens that
-- ended as long ago.
CREATE OR REPLACE FUNCTION mesh_internal.prune_certificates(at_most bigint DEFAULT 1000) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  before timestamptz := clock_timestamp() - mesh.setting('certificates_max_age')::interval;
  excess bigint := mesh_internal.excess_certificates();
  pruned bigint;
  tokens bigint;
BEGIN
  PERFORM mesh_internal.require_server('forget certificates');
  DELETE FROM mesh.certificates c WHERE c.id IN (
    SELECT o.id FROM mesh.certificates o WHERE o.at < before AND (o.not_after < now()) IS NOT FALSE ORDER BY o.at LIMIT at_most);
  GET DIAGNOSTICS pruned = ROW_COUNT;
  IF pruned = 0 AND excess > 0 THEN
    DELETE FROM mesh.certificates c WHERE c.id IN (
      SELECT o.id FROM mesh.certificates o WHERE o.not_after < now() AND o.credential = 'certificate' ORDER BY o.at LIMIT least(at_most, excess));
    GET DIAGNOSTICS pruned = ROW_COUNT;
  END IF;
  IF pruned = 0 AND excess > 0 THEN
    DELETE FROM mesh.certificates c WHERE c.id IN (
      SELECT o.id FROM mesh.certificates o WHERE (o.not_after < now()) IS NOT FALSE ORDER BY o.at LIMIT least(at_most, excess));
    GET DIAGNOSTICS pruned = ROW_COUNT;
  END IF;
  DELETE FROM mesh_internal.join_token_hashes t WHERE t.id IN (
    SELECT o.id FROM mesh_internal.join_token_hashes o WHERE o.expires_at < before ORDER BY o.expires_at LIMIT greatest(at_most - pruned, 0));
  GET DIAGNOSTICS tokens = ROW_COUNT;
  RETURN pruned + tokens;
END $$;

COMMENT ON FUNCTION mesh_internal.prune_certificates IS 'Forgets a batch of certificates that are older than the setting certificates_max_age and have ended, or more than certificates_max, and of join tokens that ended as long ago. It returns how many went. Every mcp-server calls it now and then, until there is none.';
