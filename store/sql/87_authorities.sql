-- The authorities of the mesh. mcp-server makes them and encrypts their keys before they come here,
-- so whoever can only read the database cannot sign. One signs at a time. Its successor is trusted
-- before it signs, and its predecessor afterwards.

CREATE OR REPLACE VIEW mesh.authorities AS
  SELECT id, state, fingerprint, not_before, not_after, chain, created_by, created_at, activated_by, activated_at, replaced_at, retired_by, retired_at
  FROM mesh_internal.authority_keys;

COMMENT ON VIEW mesh.authorities IS 'The authorities that sign for this mesh, will sign, or have signed. All but the retired ones are trusted. mcp-client authority changes them.';
COMMENT ON COLUMN mesh.authorities.id IS 'The number of the authority.';
COMMENT ON COLUMN mesh.authorities.state IS 'next: trusted, but not signing yet; active: signs; previous: still trusted, because certificates from it are in use; retired: no longer trusted.';
COMMENT ON COLUMN mesh.authorities.fingerprint IS 'The SHA-256 hash of its certificate, in hexadecimal.';
COMMENT ON COLUMN mesh.authorities.not_before IS 'When its certificate begins to be valid.';
COMMENT ON COLUMN mesh.authorities.not_after IS 'When its certificate expires.';
COMMENT ON COLUMN mesh.authorities.chain IS 'Its certificate as PEM.';
COMMENT ON COLUMN mesh.authorities.created_by IS 'Who made it.';
COMMENT ON COLUMN mesh.authorities.created_at IS 'When.';
COMMENT ON COLUMN mesh.authorities.activated_by IS 'Who made it sign.';
COMMENT ON COLUMN mesh.authorities.activated_at IS 'When it began to sign.';
COMMENT ON COLUMN mesh.authorities.replaced_at IS 'When another began to sign in its place.';
COMMENT ON COLUMN mesh.authorities.retired_by IS 'Who ended the trust in it.';
COMMENT ON COLUMN mesh.authorities.retired_at IS 'When.';

-- insert_authority stores a new authority, after other changes of authorities have ended.
CREATE OR REPLACE FUNCTION mesh_internal.insert_authority(state text, chain text, sealed_key text) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  made bigint;
BEGIN
  IF (sealed_key <> '') IS NOT TRUE OR sealed_key ~ 'PRIVATE KEY' THEN
    RAISE invalid_parameter_value USING MESSAGE = 'the key of the authority is not encrypted', HINT = 'have mcp-server make it, with --secrets-key-file';
  END IF;
  INSERT INTO mesh_internal.authority_keys (state, fingerprint, chain, sealed_key, not_before, not_after, created_by, activated_by, activated_at)
    SELECT insert_authority.state, encode(sha256(c.der), 'hex'), insert_authority.chain, insert_authority.sealed_key,
      (mesh_internal.validity(c.der)).not_before, (mesh_internal.validity(c.der)).not_after, mesh_internal.author(),
      CASE WHEN insert_authority.state = 'active' THEN mesh_internal.author() END, CASE WHEN insert_authority.state = 'active' THEN now() END
    FROM mesh_internal.authorities_in('the certificates of the authority', insert_authority.chain) WITH ORDINALITY AS c (der, i) WHERE c.i = 1
    RETURNING id INTO made;
  RETURN made;
END $$;

-- change_authorities makes transactions that change authorities take turns.
CREATE OR REPLACE FUNCTION mesh_internal.change_authorities(doing text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM mesh_internal.require_server(doing);
  LOCK TABLE mesh_internal.authority_keys IN SHARE ROW EXCLUSIVE MODE;
END $$;

-- first_authority stores the first authority, which signs at once. A second caller gets the
-- existing one.
CREATE OR REPLACE FUNCTION mesh_internal.first_authority(chain text, sealed_key text, OUT id bigint, OUT won boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM mesh_internal.change_authorities('make the authority of the mesh');
  SELECT a.id INTO id FROM mesh_internal.authority_keys a WHERE a.state = 'active';
  won := NOT FOUND;
  IF won THEN
    id := mesh_internal.insert_authority('active', chain, sealed_key);
  END IF;
END $$;

COMMENT ON FUNCTION mesh_internal.first_authority IS 'Internal. mcp-server keeps by it the authority that it makes at its first start.';

CREATE OR REPLACE FUNCTION mesh_internal.add_authority(chain text, sealed_key text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  waiting bigint;
BEGIN
  PERFORM mesh_internal.change_authorities('add an authority to the mesh');
  SELECT a.id INTO waiting FROM mesh_internal.authority_keys a WHERE a.state = 'next';
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'MS003', MESSAGE = format('there is an authority already that is to sign next: %s', waiting),
      HINT = 'activate it, or retire it first';
  END IF;
  RETURN mesh_internal.insert_authority('next', chain, sealed_key);
END $$;

COMMENT ON FUNCTION mesh_internal.add_authority IS 'Internal. mcp-server keeps by it an authority that is to sign next.';

-- authority_in returns the authority with an id, which must be in a state.
CREATE OR REPLACE FUNCTION mesh_internal.authority_in(id bigint, states text[], doing text) RETURNS mesh_internal.authority_keys
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  named mesh_internal.authority_keys;
BEGIN
  SELECT * INTO named FROM mesh_internal.authority_keys a WHERE a.id = authority_in.id;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'MS003', MESSAGE = format('there is no authority %s', coalesce(id::text, 'NULL')), HINT = 'mesh.authorities lists them';
  ELSIF named.state <> ALL (states) THEN
    RAISE EXCEPTION USING ERRCODE = 'MS003', MESSAGE = format('authority %s cannot be %s: it is %s', id, doing, named.state),
      HINT = CASE named.state
        WHEN 'active' THEN CASE doing WHEN 'activated' THEN 'it signs already' ELSE 'activate another before it, and give the members of the mesh time' END
        WHEN 'retired' THEN 'its key is gone: make another with mcp-client authority rotate'
        ELSE 'only one that is to sign next can be' END;
  END IF;
  RETURN named;
END $$;

-- activate_authority makes the next authority sign. Members that have not heard of it would refuse
-- those that it signs for.
CREATE OR REPLACE FUNCTION mesh.activate_authority(id bigint, forced boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  coming mesh_internal.authority_keys;
  ready  timestamptz;
BEGIN
  PERFORM mesh_internal.change_authorities('change which authority signs');
  coming := mesh_internal.authority_in(id, '{next}', 'activated');
  ready := coming.created_at + interval '5 minutes';
  IF ready > clock_timestamp() AND NOT forced THEN
    RAISE EXCEPTION USING ERRCODE = 'MS003',
      MESSAGE = format('not every member of the mesh may have heard of authority %s, which is %s old', id, date_trunc('second', clock_timestamp() - coming.created_at)),
      HINT = format('wait until %s, or force it: then those that have not heard refuse the others until they have', to_char(ready AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'));
  END IF;
  UPDATE mesh_internal.authority_keys SET state = 'previous', replaced_at = now() WHERE state = 'active';
  UPDATE mesh_internal.authority_keys a SET state = 'active', activated_by = mesh_internal.author(), activated_at = now() WHERE a.id = activate_authority.id;
END $$;

COMMENT ON FUNCTION mesh.activate_authority IS 'Makes the next authority sign; the one that signed so far is still trusted. Refused within five minutes of its creation, unless forced.';

-- holders_of returns the members whose newest certificate may lead to an authority. If the issuer
-- did not say which, it is the authority that signed at the time.
CREATE OR REPLACE FUNCTION mesh_internal.holders_of(held mesh_internal.authority_keys) RETURNS TABLE (identity text, not_after timestamptz)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT c.identity, c.not_after FROM mesh_internal.last_certificates c
  WHERE c.authority = (held).fingerprint OR c.authority = '' AND c.at < (held).replaced_at
$$;

-- retire_authority ends the trust in an authority, and forgets its key.
CREATE OR REPLACE FUNCTION mesh.retire_authority(id bigint, forced boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  old     mesh_internal.authority_keys;
  holders record;
BEGIN
  PERFORM mesh_internal.change_authorities('retire an authority');
  old := mesh_internal.authority_in(id, '{next,previous}', 'retired');
  IF old.state = 'previous' AND NOT forced THEN
    SELECT count(*) AS n, max(h.not_after) AS until, min(h.identity) AS one INTO holders FROM mesh_internal.holders_of(old) h;
    IF holders.n > 0 THEN
      RAISE EXCEPTION USING ERRCODE = 'MS003',
        MESSAGE = format('%s of the mesh %s a certificate that authority %s signed, such as %s', CASE holders.n WHEN 1 THEN 'one member' ELSE holders.n || ' members' END,
          CASE holders.n WHEN 1 THEN 'has' ELSE 'have' END, id, holders.one),
        HINT = format('wait until they have renewed it, or until %s, when the last of them ends; or force it: then they are refused', to_char(holders.until AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'));
    ELSIF old.replaced_at + interval '10 minutes' > clock_timestamp() THEN
      RAISE EXCEPTION USING ERRCODE = 'MS003',
        MESSAGE = format('authority %s was replaced only %s ago, and not all that it signed may be recorded yet', id, date_trunc('second', clock_timestamp() - old.replaced_at)),
        HINT = 'wait ten minutes from then on, or force it';
    END IF;
  END IF;
  UPDATE mesh_internal.authority_keys a SET state = 'retired', sealed_key = '', retired_by = mesh_internal.author(), retired_at = now() WHERE a.id = retire_authority.id;
END $$;

COMMENT ON FUNCTION mesh.retire_authority IS 'Ends the trust in an authority that no longer signs, or was to sign next, and forgets its key. Refused while members have certificates from it, unless forced.';

-- reseal_authority stores the same key encrypted with another, unless somebody else has changed it.
CREATE OR REPLACE FUNCTION mesh_internal.reseal_authority(id bigint, old text, new text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM mesh_internal.require_server('encrypt the keys of authorities');
  IF (new <> '') IS NOT TRUE OR new ~ 'PRIVATE KEY' THEN
    RAISE invalid_parameter_value USING MESSAGE = 'the key of the authority is not encrypted', HINT = 'run mcp-server secrets seal';
  END IF;
  UPDATE mesh_internal.authority_keys a SET sealed_key = new WHERE a.id = reseal_authority.id AND a.sealed_key = old;
  RETURN FOUND;
END $$;

COMMENT ON FUNCTION mesh_internal.reseal_authority IS 'Internal. mcp-server secrets seal calls it.';

DROP TRIGGER IF EXISTS wake_servers ON mesh_internal.authority_keys;
CREATE TRIGGER wake_servers AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON mesh_internal.authority_keys
  FOR EACH STATEMENT EXECUTE FUNCTION mesh_internal.wake_servers();
