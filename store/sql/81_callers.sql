-- Who may call the servers, and what they are shown. internal/caller and mcp-server/readers use
-- these tables.

-- require_server guards what servers do for their callers, and owners do directly.
CREATE OR REPLACE FUNCTION mesh_internal.require_server(doing text) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NOT mesh_internal.speaks_for_others() THEN
    PERFORM mesh_internal.require_owner(doing);
  END IF;
END $$;

-- create_token stores the hash of a new token.
CREATE OR REPLACE FUNCTION mesh.create_token(name text, hash bytea, scopes text[], expires_at timestamptz DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  wrong text;
BEGIN
  PERFORM mesh_internal.require_server('make tokens');
  wrong := (SELECT s FROM unnest(scopes) s WHERE (s ~ '^(admin|sign|register|(read|write)(:[-a-z0-9,*]+(:[A-Za-z0-9.,*]+)?)?|secrets(:[-a-z0-9,*]+)?)$') IS NOT TRUE LIMIT 1);
  IF (name ~ '^[a-z0-9]([-._a-z0-9]*[a-z0-9])?$' AND char_length(name) <= 63) IS NOT TRUE THEN
    RAISE invalid_parameter_value USING MESSAGE = format('%L is not a name for a token', name),
      HINT = 'at most 63 lower-case letters, digits, "-", "." and "_", the first and the last a letter or digit';
  ELSIF wrong IS NOT NULL OR coalesce(cardinality(scopes), 0) = 0 THEN
    RAISE invalid_parameter_value USING MESSAGE = CASE WHEN wrong IS NULL THEN 'a token has to have a scope' ELSE format('%L is not a scope', wrong) END,
      HINT = 'write read, write, secrets, sign, register or admin, then perhaps :NAMESPACES and :KINDS, such as write:shop:VirtualService';
  ELSIF expires_at <= now() THEN
    RAISE invalid_parameter_value USING MESSAGE = 'the token would have expired already', HINT = 'let it expire later';
  ELSIF EXISTS (SELECT FROM mesh.tokens t WHERE t.name = create_token.name AND t.revoked_at IS NULL) THEN
    RAISE unique_violation USING MESSAGE = format('there is a token "%s" already', name), HINT = 'choose another name, or revoke that one first';
  END IF;
  INSERT INTO mesh.tokens (name, hash, scopes, expires_at, created_by) VALUES (name, hash, scopes, expires_at, mesh_internal.author());
END $$;

COMMENT ON FUNCTION mesh.create_token IS 'Stores the hash of a token that mcp-client token create or mcp-server token create has made.';

-- revoke_token revokes a token, and reports whether there was one in force.
CREATE OR REPLACE FUNCTION mesh.revoke_token(name text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM mesh_internal.require_server('revoke tokens');
  UPDATE mesh.tokens t SET revoked_at = now(), revoked_by = mesh_internal.author() WHERE t.name = revoke_token.name AND t.revoked_at IS NULL;
  RETURN FOUND;
END $$;

COMMENT ON FUNCTION mesh.revoke_token IS 'Revokes a token, and returns whether there was one of that name in force. Within a second servers refuse it and end its open streams.';

-- note_token_uses records when tokens were last used.
CREATE OR REPLACE FUNCTION mesh_internal.note_token_uses(tokens bigint[], times timestamptz[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM mesh_internal.require_server('note the use of tokens');
  UPDATE mesh.tokens t SET used_at = date_trunc('minute', u.time) FROM unnest(tokens, times) AS u (id, time)
    WHERE t.id = u.id AND date_trunc('minute', u.time) > coalesce(t.used_at, '-infinity');
END $$;

-- kind_word returns the name of a kind in mesh.readers and in scopes: with its group if two kinds
-- share the name.
CREATE OR REPLACE FUNCTION mesh_internal.kind_word(word text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  found text[] := ARRAY(SELECT k.kind || '.' || k.api_group FROM mesh_internal.kinds_named(word) k ORDER BY 1);
BEGIN
  IF cardinality(found) = 0 THEN
    PERFORM mesh_internal.refuse('MS002', NULL, NULL, NULL, 'kinds', format('unknown kind "%s"', word),
      mesh_internal.kind_hint(word));
  ELSIF cardinality(found) > 1 THEN
    PERFORM mesh_internal.refuse('MS002', word, NULL, NULL, 'kinds', format('%s is a kind of more than one group', word), 'write ' || array_to_string(found, ' or '));
  ELSIF (SELECT count(*) FROM mesh.kinds k WHERE k.kind = split_part(found[1], '.', 1)) = 1 THEN
    RETURN split_part(found[1], '.', 1);
  END IF;
  RETURN found[1];
END $$;

-- is_selector reports whether a text is a selector of labels.
CREATE OR REPLACE FUNCTION mesh_internal.is_selector(text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  key    text := '[A-Za-z0-9](?:[-A-Za-z0-9_./]*[A-Za-z0-9])?';
  value  text := '(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)?';
  clause text := format('(?:!?\s*%1$s|%1$s\s*(?:==|=|!=)\s*%2$s|%1$s\s+(?:in|notin)\s*\(\s*%2$s\s*(?:,\s*%2$s\s*)*\))', key, value);
BEGIN
  RETURN $1 ~ format('^\s*(?:%1$s\s*(?:,\s*%1$s\s*)*)?$', clause);
END $$;

CREATE OR REPLACE FUNCTION mesh_internal.check_reader() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  wrong text := (SELECT coalesce(n, 'NULL') FROM unnest(NEW.namespaces) n
    WHERE (n IN ('', '*') OR char_length(n) <= 63 AND n ~ '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') IS NOT TRUE LIMIT 1);
BEGIN
  IF NOT (NEW.identity IN ('*', 'anonymous')
      OR NEW.identity ~ '^spiffe://[-._a-z0-9]+(/([-._A-Za-z0-9]+|\*))*$' AND NEW.identity !~ '/\.{1,2}(/|$)' AND char_length(NEW.identity) <= 2048) THEN
    RAISE invalid_parameter_value USING MESSAGE = format('%L is not a pattern of identities', NEW.identity),
      HINT = 'write spiffe://trust.domain/a/path, where a segment may be *, the last of which stands for all that follow; or anonymous, or *';
  ELSIF wrong IS NOT NULL OR cardinality(NEW.namespaces) = 0 THEN
    RAISE invalid_parameter_value USING MESSAGE = CASE WHEN wrong IS NULL THEN 'there is no namespace' ELSE format('%L is not a valid namespace', wrong) END,
      HINT = 'name some, or write {*} for all; delete the row to show nothing';
  ELSIF cardinality(NEW.kinds) = 0 OR array_position(NEW.kinds, NULL) IS NOT NULL THEN
    RAISE invalid_parameter_value USING MESSAGE = 'there is no kind', HINT = 'name some, or write {*} for all; delete the row to show nothing';
  ELSIF NOT mesh_internal.is_selector(NEW.labels) THEN
    RAISE invalid_parameter_value USING MESSAGE = format('%L does not select by labels', NEW.labels),
      HINT = 'write requirements with commas between them: key=value, key!=value, key in (a, b), key notin (a, b), key or !key';
  END IF;
  NEW.namespaces := CASE WHEN '*' = ANY (NEW.namespaces) THEN '{*}' ELSE ARRAY(SELECT DISTINCT n FROM unnest(NEW.namespaces) n ORDER BY n) END;
  NEW.kinds := CASE WHEN '*' = ANY (NEW.kinds) THEN '{*}' ELSE ARRAY(SELECT DISTINCT mesh_internal.kind_word(k) AS word FROM unnest(NEW.kinds) k ORDER BY word) END;
  NEW.author := mesh_internal.author();
  NEW.updated_at := now();
  RETURN NEW;
END $$;

DROP TRIGGER IF EXISTS check_reader ON mesh.readers;
CREATE TRIGGER check_reader BEFORE INSERT OR UPDATE ON mesh.readers FOR EACH ROW EXECUTE FUNCTION mesh_internal.check_reader();

-- wake_servers tells servers which table to read again.
CREATE OR REPLACE FUNCTION mesh_internal.wake_servers() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM mesh_internal.notify('mesh_servers', TG_TABLE_NAME);
  RETURN NULL;
END $$;

DROP TRIGGER IF EXISTS wake_servers ON mesh.readers;
CREATE TRIGGER wake_servers AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON mesh.readers
  FOR EACH STATEMENT EXECUTE FUNCTION mesh_internal.wake_servers();

DROP TRIGGER IF EXISTS wake_servers ON mesh.tokens;
CREATE TRIGGER wake_servers AFTER INSERT OR UPDATE OF name, hash, scopes, expires_at, revoked_at OR DELETE OR TRUNCATE ON mesh.tokens
  FOR EACH STATEMENT EXECUTE FUNCTION mesh_internal.wake_servers();
