-- Every certificate that is given or refused is a row, written in batches by those who give them.

DROP POLICY IF EXISTS read_granted ON mesh.certificates;
CREATE POLICY read_granted ON mesh.certificates FOR SELECT
  USING ((SELECT mesh.sees_all()) OR namespace <> '' AND namespace = ANY ((SELECT mesh.readable_namespaces())::text[]));

-- record_certificates keeps a batch. What is recorded again counts once. It returns how many rows are new.
CREATE OR REPLACE FUNCTION mesh.record_certificates(server text, ids uuid[], times timestamptz[], refusals text[], details text[], identities text[], enrolments text[],
  serials text[], ends timestamptz[], authorities text[], credentials text[], peers text[], key_hashes bytea[], took interval[]) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  recorded bigint;
BEGIN
  PERFORM mesh.require_server('record certificates');
  INSERT INTO mesh.certificates (id, at, server, refusal, detail, identity, enrolment, serial, not_after, authority, credential, peer, key_hash, took)
    SELECT u.id, u.at, record_certificates.server, u.refusal, left(u.detail, 1000), left(u.identity, 2048), left(u.enrolment, 200), left(u.serial, 200), u.not_after,
      left(u.authority, 200), left(u.credential, 40), left(u.peer, 200), substring(u.key_hash FROM 1 FOR 64), u.took
    FROM unnest(ids, times, refusals, details, identities, enrolments, serials, ends, authorities, credentials, peers, key_hashes, record_certificates.took)
      AS u (id, at, refusal, detail, identity, enrolment, serial, not_after, authority, credential, peer, key_hash, took)
    ON CONFLICT (id) DO NOTHING;
  GET DIAGNOSTICS recorded = ROW_COUNT;
  RETURN recorded;
END $$;

COMMENT ON FUNCTION mesh.record_certificates IS 'Internal. Servers record by it who was given a certificate, and who was refused one.';

-- last_certificates has the newest certificate of each member whose certificates are in force.
CREATE OR REPLACE VIEW mesh.last_certificates AS
  SELECT DISTINCT ON (identity, enrolment) namespace, identity, enrolment, at, not_after, serial, authority, server, peer
  FROM mesh.certificates WHERE refusal IS NULL AND not_after > now()
  ORDER BY identity, enrolment, at DESC;

COMMENT ON VIEW mesh.last_certificates IS 'Internal. Read mesh.machines.';

CREATE OR REPLACE VIEW mesh.machines WITH (security_barrier) AS
  SELECT c.namespace, c.identity, c.enrolment, c.at AS issued_at, c.not_after, c.serial, c.authority, c.server, c.peer,
    EXISTS (SELECT FROM mesh.revocations r WHERE r.lifted_at IS NULL AND (r.enrolment = c.enrolment OR r.identity = mesh.path_of(c.identity))) AS revoked
  FROM mesh.last_certificates c
  WHERE (SELECT mesh.sees_all()) OR c.namespace <> '' AND c.namespace = ANY ((SELECT mesh.readable_namespaces())::text[]);

COMMENT ON VIEW mesh.machines IS 'Who has a certificate in force: machines, and servers, which have no namespace.';

COMMENT ON COLUMN mesh.machines.enrolment IS 'The machine, from when it joined on. mesh.revoke_machine takes it.';
COMMENT ON COLUMN mesh.machines.issued_at IS 'When it was given the newest, and by not_after when that ends.';
COMMENT ON COLUMN mesh.machines.authority IS 'The fingerprint of the root in mesh.authorities that it leads to.';
COMMENT ON COLUMN mesh.machines.peer IS 'Where it called from.';

-- excess_certificates is how many rows there are beyond the setting. Their exact number costs a look at all, and is found where it may matter alone.
CREATE OR REPLACE FUNCTION mesh.excess_certificates() RETURNS bigint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  most bigint := mesh.setting('certificates_max')::bigint;
BEGIN
  IF (SELECT c.reltuples FROM pg_class c WHERE c.oid = 'mesh.certificates'::regclass) BETWEEN 0 AND 0.8 * most THEN
    RETURN 0;
  END IF;
  RETURN greatest((SELECT count(*) FROM mesh.certificates) - most, 0);
END $$;

-- prune_certificates forgets a batch of what is too old, and of join tokens that have ended as long ago.
CREATE OR REPLACE FUNCTION mesh.prune_certificates(at_most bigint DEFAULT 1000) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  before timestamptz := clock_timestamp() - mesh.setting('certificates_max_age')::interval;
  excess bigint := mesh.excess_certificates();
  pruned bigint;
  tokens bigint;
BEGIN
  PERFORM mesh.require_server('forget certificates');
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
  DELETE FROM mesh.join_token_hashes t WHERE t.id IN (
    SELECT o.id FROM mesh.join_token_hashes o WHERE o.expires_at < before ORDER BY o.expires_at LIMIT greatest(at_most - pruned, 0));
  GET DIAGNOSTICS tokens = ROW_COUNT;
  RETURN pruned + tokens;
END $$;

COMMENT ON FUNCTION mesh.prune_certificates IS 'Forgets a batch of certificates that are older than the setting certificates_max_age and have ended, or more than certificates_max, and of join tokens that ended as long ago. It returns how many went. Every mcp-server calls it now and then, until there is none.';
