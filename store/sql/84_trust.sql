-- What the mesh trusts: its trust domain, other meshes, and the issuers of tokens that machines may
-- join with.

-- trust_domains returns the trust domain of the MeshConfig and then its aliases, which stand for
-- the same mesh. They are stored where no tenant can hold a lock (see
-- mesh_internal.commit_mesh_config).
CREATE OR REPLACE FUNCTION mesh.trust_domains() RETURNS text[]
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN (SELECT n.domains FROM mesh_internal.trust_names n);
END $$;

COMMENT ON FUNCTION mesh.trust_domains IS 'Returns the trust domain of the mesh, and after it its aliases, from the MeshConfig.';

CREATE OR REPLACE FUNCTION mesh.trust_domain() RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$ SELECT (mesh.trust_domains())[1] $$;

COMMENT ON FUNCTION mesh.trust_domain IS 'Returns the trust domain of the mesh, from the MeshConfig; cluster.local by default.';

-- is_path_segment reports whether a text can be a part of a SPIFFE id.
CREATE OR REPLACE FUNCTION mesh_internal.is_path_segment(text) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce($1 ~ '^[-._A-Za-z0-9]{1,253}$' AND $1 NOT IN ('.', '..'), false)
$$;

-- is_namespace reports whether a text can be the name of a namespace.
CREATE OR REPLACE FUNCTION mesh_internal.is_namespace(text) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(char_length($1) <= 63 AND $1 ~ '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$', false)
$$;

-- check_workload refuses what cannot be an identity.
CREATE OR REPLACE FUNCTION mesh_internal.check_workload(namespace text, service_account text) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NOT mesh_internal.is_namespace(namespace) THEN
    RAISE invalid_parameter_value USING MESSAGE = format('%L is not a valid namespace', namespace),
      HINT = 'at most 63 lower-case letters, digits and "-", the first and the last a letter or digit';
  ELSIF NOT mesh_internal.is_path_segment(service_account) THEN
    RAISE invalid_parameter_value USING MESSAGE = format('%L is not a valid service account', service_account),
      HINT = 'at most 253 letters, digits, "-", "." and "_"';
  END IF;
END $$;

CREATE OR REPLACE FUNCTION mesh_internal.check_federated_trust() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF (char_length(NEW.trust_domain) <= 255 AND NEW.trust_domain ~ '^[-._a-z0-9]+$') IS NOT TRUE THEN
    RAISE invalid_parameter_value USING MESSAGE = format('%L is not a trust domain', NEW.trust_domain),
      HINT = 'at most 255 lower-case letters, digits, "-", "." and "_", without spiffe://';
  ELSIF NEW.trust_domain = ANY (mesh.trust_domains()) THEN
    RAISE invalid_parameter_value USING MESSAGE = format('%s is a trust domain of this mesh itself', NEW.trust_domain),
      HINT = 'name that of the other mesh; mesh.authorities has what this one trusts for its own';
  END IF;
  SELECT max((mesh_internal.validity(r)).not_after) INTO NEW.not_after FROM mesh_internal.authorities_in(format('the roots of %s', NEW.trust_domain), NEW.roots) r;
  NEW.author := mesh_internal.author();
  NEW.updated_at := now();
  RETURN NEW;
END $$;

DROP TRIGGER IF EXISTS check_federated_trust ON mesh.federated_trust;
CREATE TRIGGER check_federated_trust BEFORE INSERT OR UPDATE ON mesh.federated_trust
  FOR EACH ROW EXECUTE FUNCTION mesh_internal.check_federated_trust();

-- trust_federated lets servers write what owners write with INSERT.
CREATE OR REPLACE FUNCTION mesh.trust_federated(trust_domain text, roots text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM mesh_internal.require_server('trust other meshes');
  INSERT INTO mesh.federated_trust AS f (trust_domain, roots, not_after) VALUES (trust_domain, roots, 'infinity')
    ON CONFLICT ON CONSTRAINT federated_trust_pkey DO UPDATE SET roots = EXCLUDED.roots WHERE f.roots <> EXCLUDED.roots;
END $$;

COMMENT ON FUNCTION mesh.trust_federated IS 'Trusts the authorities of another mesh, for its own trust domain only. They replace those that were trusted for that domain before.';

-- distrust_federated takes that back, and reports whether there was anything to take back.
CREATE OR REPLACE FUNCTION mesh.distrust_federated(trust_domain text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM mesh_internal.require_server('end the trust in other meshes');
  DELETE FROM mesh.federated_trust f WHERE f.trust_domain = distrust_federated.trust_domain;
  RETURN FOUND;
END $$;

COMMENT ON FUNCTION mesh.distrust_federated IS 'Ends the trust in another mesh, and returns whether it was trusted.';

-- jwks_problem returns what is wrong with a key document, and what would be right; NULLs if nothing
-- is. Whoever uses a key finds out whether it is sound.
CREATE OR REPLACE FUNCTION mesh_internal.jwks_problem(jwks jsonb, OUT reason text, OUT hint text)
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  hint := 'write {"keys": [{"kty": "RSA", …}]}, as the issuer publishes it';
  IF jsonb_typeof(jwks) <> 'object' OR jsonb_typeof(jwks -> 'keys') IS DISTINCT FROM 'array' OR jwks -> 'keys' = '[]' THEN
    reason := 'is no document with keys';
  ELSIF length(jwks::text) > 65536 THEN
    reason := 'is larger than 64 KiB';
  ELSIF jsonb_path_exists(jwks, '$.keys[*] ? (@.type() != "object")') THEN
    reason := 'has a key that is no object';
  ELSIF jsonb_path_exists(jwks, '$.keys[*] ? (exists (@.d) || exists (@.k) || @.kty == "oct")') THEN
    reason := 'has a key that is not public';
    hint := 'write the public keys alone; if others have seen this one, replace it';
  ELSE
    hint := NULL;
  END IF;
END $$;

CREATE OR REPLACE FUNCTION mesh_internal.check_join_issuer() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  reason text;
  hint   text;
BEGIN
  IF (NEW.name ~ '^[a-z0-9]([-._a-z0-9]*[a-z0-9])?$' AND char_length(NEW.name) <= 63) IS NOT TRUE THEN
    RAISE invalid_parameter_value USING MESSAGE = format('%L is not a name for an issuer', NEW.name),
      HINT = 'at most 63 lower-case letters, digits, "-", "." and "_", the first and the last a letter or digit';
  END IF;
  IF NEW.issuer !~ '^\S+$' OR char_length(NEW.issuer) > 2048 THEN
    reason := 'the issuer is empty or has blanks'; hint := 'write what its tokens have as iss, to the letter';
  ELSIF cardinality(NEW.audiences) = 0 OR EXISTS (SELECT FROM unnest(NEW.audiences) a WHERE (a <> '') IS NOT TRUE) THEN
    reason := 'there is no audience, or an empty one'; hint := 'name what the tokens are made for (aud), so that no token counts that was made for others';
  ELSIF num_nonnulls(NEW.jwks, NEW.jwks_uri) > 1 THEN
    reason := 'there are both jwks and jwks_uri'; hint := 'write the keys of the issuer, or where it publishes them';
  ELSIF num_nonnulls(NEW.jwks, NEW.jwks_uri) = 0 AND NEW.issuer !~ '^https://[^/\s@?#]+(/[^\s?#]*)?$' THEN
    reason := 'there are neither jwks nor jwks_uri, and the issuer is no https URL under which it could say where its keys are'; hint := 'write the keys of the issuer, or where it publishes them';
  ELSIF NEW.jwks IS NOT NULL THEN
    SELECT 'jwks ' || p.reason, p.hint INTO reason, hint FROM mesh_internal.jwks_problem(NEW.jwks) p;
  ELSIF NEW.jwks_uri !~ '^https://[^/\s@?#]+(/[^\s#]*)?$' OR char_length(NEW.jwks_uri) > 2048 THEN
    reason := 'jwks_uri is not where keys can be fetched safely'; hint := 'write https://host/path';
  END IF;
  IF reason IS NULL AND (jsonb_typeof(NEW.claims) <> 'object' OR jsonb_path_exists(NEW.claims, '$.* ? (@.type() != "string")') OR NEW.claims ? '') THEN
    reason := 'the claims are no object of strings'; hint := 'write {"path.to.claim": "its value"}';
  ELSIF reason IS NULL AND NEW.workload_group <> '' AND NOT mesh_internal.is_path_segment(NEW.workload_group) THEN
    reason := format('%L is not the name of a WorkloadGroup', NEW.workload_group); hint := 'name one of the namespace, or leave it empty';
  END IF;
  IF reason IS NOT NULL THEN
    RAISE invalid_parameter_value USING MESSAGE = format('issuer "%s": %s', NEW.name, reason), HINT = hint;
  END IF;
  PERFORM mesh_internal.check_workload(NEW.namespace, NEW.service_account);
  NEW.author := mesh_internal.author();
  NEW.updated_at := now();
  RETURN NEW;
END $$;

DROP TRIGGER IF EXISTS check_join_issuer ON mesh.join_issuers;
CREATE TRIGGER check_join_issuer BEFORE INSERT OR UPDATE ON mesh.join_issuers
  FOR EACH ROW EXECUTE FUNCTION mesh_internal.check_join_issuer();

-- put_join_issuer lets servers write what owners write with INSERT.
CREATE OR REPLACE FUNCTION mesh.put_join_issuer(name text, issuer text, audiences text[], jwks jsonb, jwks_uri text, claims jsonb,
  namespace text, service_account text, workload_group text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM mesh_internal.require_server('trust issuers of tokens');
  INSERT INTO mesh.join_issuers (name, issuer, audiences, jwks, jwks_uri, claims, namespace, service_account, workload_group)
    VALUES (name, issuer, audiences, jwks, jwks_uri, claims, namespace, service_account, workload_group)
    ON CONFLICT ON CONSTRAINT join_issuers_pkey DO UPDATE SET issuer = EXCLUDED.issuer, audiences = EXCLUDED.audiences, jwks = EXCLUDED.jwks,
      jwks_uri = EXCLUDED.jwks_uri, claims = EXCLUDED.claims, namespace = EXCLUDED.namespace, service_account = EXCLUDED.service_account,
      workload_group = EXCLUDED.workload_group;
END $$;

COMMENT ON FUNCTION mesh.put_join_issuer IS 'Writes a row of mesh.join_issuers.';

-- remove_join_issuer reports whether there was one.
CREATE OR REPLACE FUNCTION mesh.remove_join_issuer(name text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM mesh_internal.require_server('end the trust in issuers of tokens');
  DELETE FROM mesh.join_issuers i WHERE i.name = remove_join_issuer.name;
  RETURN FOUND;
END $$;

COMMENT ON FUNCTION mesh.remove_join_issuer IS 'Removes a row of mesh.join_issuers, and returns whether there was one.';

DROP TRIGGER IF EXISTS wake_servers ON mesh.federated_trust;
CREATE TRIGGER wake_servers AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON mesh.federated_trust
  FOR EACH STATEMENT EXECUTE FUNCTION mesh_internal.wake_servers();

DROP TRIGGER IF EXISTS wake_servers ON mesh_internal.trust_names;
CREATE TRIGGER wake_servers AFTER UPDATE OF lifetimes, own_gateways ON mesh_internal.trust_names
  FOR EACH STATEMENT EXECUTE FUNCTION mesh_internal.wake_servers();

DROP TRIGGER IF EXISTS wake_servers ON mesh.join_issuers;
CREATE TRIGGER wake_servers AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON mesh.join_issuers
  FOR EACH STATEMENT EXECUTE FUNCTION mesh_internal.wake_servers();
