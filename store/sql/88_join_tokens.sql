-- Tokens that machines and servers join the mesh with. Only the hash of the secret is stored.

CREATE OR REPLACE VIEW mesh.join_tokens WITH (security_barrier) AS
  SELECT id, name, namespace, service_account, workload_group, program, max_uses, uses, created_by, created_at, expires_at, revoked_by, revoked_at, used_at,
    CASE WHEN revoked_at IS NOT NULL THEN 'revoked' WHEN expires_at <= now() THEN 'expired' WHEN uses >= max_uses THEN 'used' ELSE 'valid' END AS state
  FROM mesh_internal.join_token_hashes
  WHERE (SELECT mesh_internal.sees_all()) OR namespace <> '' AND namespace = ANY ((SELECT mesh_internal.readable_namespaces())::text[]);

COMMENT ON VIEW mesh.join_tokens IS 'The tokens that machines and servers join with, including those that no longer count. mcp-client token makes and revokes them.';
COMMENT ON COLUMN mesh.join_tokens.id IS 'The number of the token.';
COMMENT ON COLUMN mesh.join_tokens.name IS 'The name of the token.';
COMMENT ON COLUMN mesh.join_tokens.namespace IS 'The namespace of the identity that the bearer gets; empty for a server.';
COMMENT ON COLUMN mesh.join_tokens.service_account IS 'The service account that the bearer gets in the namespace. NULL for a machine of workload_group, which gets that of its template, and for a server.';
COMMENT ON COLUMN mesh.join_tokens.workload_group IS 'The WorkloadGroup that the machine joins; NULL for any.';
COMMENT ON COLUMN mesh.join_tokens.program IS 'For a server, its program; NULL for machines.';
COMMENT ON COLUMN mesh.join_tokens.max_uses IS 'How often it may be used.';
COMMENT ON COLUMN mesh.join_tokens.uses IS 'How many have joined with it.';
COMMENT ON COLUMN mesh.join_tokens.created_by IS 'Who made it.';
COMMENT ON COLUMN mesh.join_tokens.created_at IS 'When.';
COMMENT ON COLUMN mesh.join_tokens.expires_at IS 'When it expires.';
COMMENT ON COLUMN mesh.join_tokens.revoked_by IS 'Who revoked it.';
COMMENT ON COLUMN mesh.join_tokens.revoked_at IS 'When.';
COMMENT ON COLUMN mesh.join_tokens.used_at IS 'When it was last used.';
COMMENT ON COLUMN mesh.join_tokens.state IS 'valid, used, expired or revoked.';

-- account_of_group returns the service account of a WorkloadGroup's machines; NULL if there is no
-- such group.
CREATE OR REPLACE FUNCTION mesh_internal.account_of_group(namespace text, name text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(nullif(mesh_internal.field_of(r.spec, '{template,serviceAccount}', 'service_account') #>> '{}', ''), 'default') FROM mesh.resources r
  WHERE r.kind = 'WorkloadGroup' AND r.api_group = 'networking.istio.io' AND r.namespace = account_of_group.namespace AND r.name = account_of_group.name
$$;

-- check_join_token refuses a token that nobody could join with, or that the acting role may not
-- make.
CREATE OR REPLACE FUNCTION mesh_internal.check_join_token(t mesh_internal.join_token_hashes) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF num_nonnulls(t.service_account, t.workload_group, t.program) <> 1 THEN
    RAISE invalid_parameter_value USING MESSAGE = 'a join token is for one of a service account, a WorkloadGroup and a server', HINT = 'name one of them';
  ELSIF t.program IS NOT NULL THEN
    PERFORM mesh_internal.require_server('make join tokens of servers');
    PERFORM mesh_internal.server_path(t.program, 'any');
    IF t.namespace <> '' THEN
      RAISE invalid_parameter_value USING MESSAGE = 'servers belong to no namespace', HINT = 'leave it out';
    END IF;
  ELSE
    PERFORM mesh_internal.check_workload(t.namespace, coalesce(t.service_account, t.workload_group));
    PERFORM mesh_internal.require_write(t.namespace);
    IF t.workload_group IS NOT NULL AND mesh_internal.account_of_group(t.namespace, t.workload_group) IS NULL THEN
      RAISE invalid_parameter_value USING MESSAGE = format('there is no WorkloadGroup %s/%s', t.namespace, t.workload_group),
        HINT = 'write it first; or make the token for a service account';
    END IF;
  END IF;
  IF (t.name ~ '^[a-z0-9]([-._a-z0-9]*[a-z0-9])?$' AND char_length(t.name) <= 63) IS NOT TRUE THEN
    RAISE invalid_parameter_value USING MESSAGE = format('%L is not a name for a token', t.name),
      HINT = 'at most 63 lower-case letters, digits, "-", "." and "_", the first and the last a letter or digit';
  ELSIF (t.max_uses BETWEEN 1 AND 1000000) IS NOT TRUE THEN
    RAISE invalid_parameter_value USING MESSAGE = format('a join token cannot be used %s times', coalesce(t.max_uses::text, 'unlimited')), HINT = 'let it be used once to a million times';
  ELSIF (t.expires_at > now()) IS NOT TRUE THEN
    RAISE invalid_parameter_value USING MESSAGE = CASE WHEN t.expires_at IS NULL THEN 'a join token has to expire' ELSE 'the token would have expired already' END, HINT = 'let it expire later';
  END IF;
END $$;

-- create_join_token stores the hash of a new token. The name of a used-up token is free again.
CREATE OR REPLACE FUNCTION mesh.create_join_token(name text, hash bytea, namespace text, service_account text, workload_group text, program text,
  max_uses int, expires_at timestamptz) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  t mesh_internal.join_token_hashes;
BEGIN
  t.name := name;
  t.namespace := coalesce(namespace, '');
  t.service_account := nullif(service_account, '');
  t.workload_group := nullif(workload_group, '');
  t.program := nullif(program, '');
  t.max_uses := max_uses;
  t.expires_at := expires_at;
  PERFORM mesh_internal.check_join_token(t);
  UPDATE mesh_internal.join_token_hashes o SET current = false
    WHERE o.current AND o.name = t.name AND (o.revoked_at IS NOT NULL OR o.expires_at <= now() OR o.uses >= o.max_uses);
  INSERT INTO mesh_internal.join_token_hashes (name, hash, namespace, service_account, workload_group, program, max_uses, expires_at, created_by)
    VALUES (t.name, hash, t.namespace, t.service_account, t.workload_group, t.program, t.max_uses, t.expires_at, mesh_internal.author());
EXCEPTION WHEN unique_violation THEN
  RAISE unique_violation USING MESSAGE = format('there is a join token "%s" already', name), HINT = 'choose another name, or revoke that one first';
END $$;

COMMENT ON FUNCTION mesh.create_join_token IS 'Stores the hash of a join token that mcp-client token create or mcp-server token create has made.';

-- revoke_join_token revokes a token, and reports whether there was one that counted. Who has joined
-- with it stays.
CREATE OR REPLACE FUNCTION mesh.revoke_join_token(name text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  t mesh_internal.join_token_hashes;
BEGIN
  SELECT * INTO t FROM mesh_internal.join_token_hashes o
    WHERE o.current AND o.name = revoke_join_token.name AND o.revoked_at IS NULL AND (mesh_internal.sees_all() OR o.namespace = ANY (mesh_internal.readable_namespaces())) FOR UPDATE;
  IF NOT FOUND THEN
    RETURN false;
  ELSIF t.program IS NOT NULL THEN
    PERFORM mesh_internal.require_server('revoke join tokens of servers');
  ELSE
    PERFORM mesh_internal.require_write(t.namespace);
  END IF;
  UPDATE mesh_internal.join_token_hashes o SET revoked_at = now(), revoked_by = mesh_internal.author() WHERE o.id = t.id;
  RETURN true;
END $$;

COMMENT ON FUNCTION mesh.revoke_join_token IS 'Revokes a join token, and returns whether there was one of that name. Machines that joined with it stay; mesh.revoke_machine revokes those.';

-- revoke_join_token_among does that for a server whose caller may revoke the tokens of some
-- namespaces, of all if there is no list, and perhaps those of servers.
CREATE OR REPLACE FUNCTION mesh_internal.revoke_join_token_among(name text, namespaces text[], servers boolean) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM mesh_internal.require_server('revoke join tokens for others');
  UPDATE mesh_internal.join_token_hashes o SET revoked_at = now(), revoked_by = mesh_internal.author()
    WHERE o.current AND o.name = revoke_join_token_among.name AND o.revoked_at IS NULL
      AND CASE WHEN o.program IS NULL THEN namespaces IS NULL OR o.namespace = ANY (namespaces) ELSE servers END;
  RETURN FOUND;
END $$;

COMMENT ON FUNCTION mesh_internal.revoke_join_token_among IS 'Internal. Servers revoke by it what their callers may revoke.';

-- new_enrolment returns a new name for a machine or a server: 80 random bits.
CREATE OR REPLACE FUNCTION mesh_internal.new_enrolment(prefix text) RETURNS text
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
  SELECT prefix || string_agg(substr('abcdefghijklmnopqrstuvwxyz234567', (get_byte(random.bytes, i) & 31) + 1, 1), '')
  FROM (SELECT sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())) AS bytes OFFSET 0) random, generate_series(0, 15) i
$$;

-- is_revoked reports whether an identity, without its trust domain, or an enrolment is revoked.
CREATE OR REPLACE FUNCTION mesh_internal.is_revoked(path text, enrolment text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT EXISTS (SELECT FROM mesh.revocations r WHERE r.lifted_at IS NULL AND r.identity = path)
    OR EXISTS (SELECT FROM mesh.revocations r WHERE r.lifted_at IS NULL AND r.enrolment = is_revoked.enrolment)
$$;

CREATE OR REPLACE FUNCTION mesh_internal.refused_token(t mesh_internal.join_token_hashes, for_server boolean, OUT refusal text, OUT detail text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF t.id IS NULL THEN
    refusal := 'token_unknown'; detail := 'there is no such join token: it is of another mesh, or was made so long ago that it is forgotten';
  ELSIF (t.program IS NOT NULL) <> for_server THEN
    refusal := 'token_unknown';
    detail := CASE WHEN for_server THEN 'it is a join token of machines, and a server wants to join' ELSE 'it is a join token of servers, and a machine wants to join' END;
  ELSIF t.revoked_at IS NOT NULL THEN
    refusal := 'token_revoked'; detail := 'the join token was revoked';
  ELSIF t.expires_at <= clock_timestamp() THEN
    refusal := 'token_expired'; detail := format('the join token has expired at %s', to_char(t.expires_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'));
  END IF;
END $$;

-- redeem_join_token lets one member join, or says why not. The row of the token is locked.
CREATE OR REPLACE FUNCTION mesh_internal.redeem_join_token(token_hash bytea, new_key bytea, from_peer text, by_server text, for_server boolean,
  OUT refusal text, OUT detail text, OUT token text, OUT namespace text, OUT service_account text, OUT workload_group text, OUT program text, OUT enrolment text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  t     mesh_internal.join_token_hashes;
  again mesh_internal.join_redemptions;
BEGIN
  SELECT * INTO t FROM mesh_internal.join_token_hashes o WHERE o.hash = token_hash;
  token := t.name;
  namespace := t.namespace;
  service_account := t.service_account;
  SELECT r.refusal, r.detail INTO refusal, detail FROM mesh_internal.refused_token(t, for_server) r;
  IF refusal IS NOT NULL THEN
    RETURN;
  END IF;
  workload_group := t.workload_group;
  program := t.program;
  SELECT * INTO again FROM mesh_internal.join_redemptions r WHERE r.token_id = t.id AND r.key_hash = new_key;
  service_account := CASE WHEN again.token_id IS NOT NULL THEN again.service_account
    WHEN t.workload_group IS NULL THEN t.service_account ELSE mesh_internal.account_of_group(t.namespace, t.workload_group) END;
  enrolment := again.enrolment;
  IF t.program IS NULL AND service_account IS NULL THEN
    refusal := 'token_revoked'; detail := format('the WorkloadGroup %s/%s that the join token is for is gone', t.namespace, t.workload_group);
  ELSIF t.program IS NULL AND NOT mesh_internal.is_path_segment(service_account) THEN
    refusal := 'request'; detail := format('the service account of the WorkloadGroup %s/%s cannot be one', t.namespace, t.workload_group);
  ELSIF mesh_internal.is_revoked(format('ns/%s/sa/%s', t.namespace, service_account), enrolment) THEN
    refusal := 'revoked'; detail := format('who the join token is for was revoked: %s', concat_ws('/', nullif(t.namespace, ''), service_account, enrolment));
  ELSIF enrolment IS NULL AND t.uses >= t.max_uses THEN
    refusal := 'token_used'; detail := format('the join token was used %s, as often as it may be', CASE t.max_uses WHEN 1 THEN 'once' ELSE t.max_uses || ' times' END);
  ELSIF enrolment IS NULL THEN
    enrolment := mesh_internal.new_enrolment(CASE WHEN for_server THEN 's-' ELSE 'm-' END);
    INSERT INTO mesh_internal.join_redemptions (token_id, key_hash, enrolment, service_account, peer, server)
      VALUES (t.id, new_key, enrolment, service_account, left(from_peer, 200), by_server);
    UPDATE mesh_internal.join_token_hashes o SET uses = o.uses + 1, used_at = now() WHERE o.id = t.id;
  END IF;
END $$;

-- redeem_join_tokens answers many at once, each in its place. Tokens are locked in a fixed order,
-- so that batches never wait for each other in a circle.
CREATE OR REPLACE FUNCTION mesh_internal.redeem_join_tokens(hashes bytea[], keys bytea[], peers text[], server text, for_server boolean DEFAULT false)
RETURNS TABLE (place bigint, refusal text, detail text, token text, namespace text, service_account text, workload_group text, program text, enrolment text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  asked record;
BEGIN
  PERFORM mesh_internal.require_server('redeem join tokens');
  PERFORM FROM mesh_internal.join_token_hashes t WHERE t.hash = ANY (hashes) ORDER BY t.id FOR UPDATE;
  FOR asked IN SELECT * FROM unnest(hashes, keys, peers) WITH ORDINALITY AS u (hash, key, peer, i) ORDER BY i LOOP
    place := asked.i;
    SELECT r.* INTO refusal, detail, token, namespace, service_account, workload_group, program, enrolment
      FROM mesh_internal.redeem_join_token(asked.hash, asked.key, asked.peer, server, for_server) r;
    RETURN NEXT;
  END LOOP;
END $$;

COMMENT ON FUNCTION mesh_internal.redeem_join_tokens IS 'Internal. Servers use up join tokens by it.';
