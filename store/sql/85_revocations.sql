-- Who has been revoked, although their certificates are valid: all machines of an identity, or one
-- of them.

DROP POLICY IF EXISTS read_granted ON mesh.revocations;
CREATE POLICY read_granted ON mesh.revocations FOR SELECT
  USING ((SELECT mesh_internal.sees_all()) OR namespace <> '' AND namespace = ANY ((SELECT mesh_internal.readable_namespaces())::text[]));

-- path_of returns a SPIFFE id without its trust domain, as revocations have it.
CREATE OR REPLACE FUNCTION mesh_internal.path_of(identity text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$ SELECT substring(identity FROM '^spiffe://[^/]+/(.+)$') $$;

-- revoke adds a revocation, and reports whether it is new.
CREATE OR REPLACE FUNCTION mesh_internal.revoke(namespace text, identity text, enrolment text, reason text) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  INSERT INTO mesh.revocations (namespace, identity, enrolment, reason, revoked_by)
    VALUES (namespace, identity, enrolment, left(coalesce(reason, ''), 1000), mesh_internal.author()) ON CONFLICT DO NOTHING;
  RETURN FOUND;
END $$;

-- restore_revoked lifts a revocation, and reports whether there was one in force.
CREATE OR REPLACE FUNCTION mesh_internal.restore_revoked(identity text, enrolment text) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  UPDATE mesh.revocations r SET lifted_by = mesh_internal.author(), lifted_at = now()
    WHERE r.lifted_at IS NULL AND (r.identity = restore_revoked.identity OR r.enrolment = restore_revoked.enrolment);
  RETURN FOUND;
END $$;

CREATE OR REPLACE FUNCTION mesh.revoke_identity(namespace text, service_account text, reason text DEFAULT '') RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM mesh_internal.check_workload(namespace, service_account);
  PERFORM mesh_internal.require_write(namespace);
  RETURN mesh_internal.revoke(namespace, format('ns/%s/sa/%s', namespace, service_account), NULL, reason);
END $$;

COMMENT ON FUNCTION mesh.revoke_identity IS 'Revokes all machines of a service account, including those that join later: they get no certificates and no configuration, and members refuse them. Returns whether that is new.';

CREATE OR REPLACE FUNCTION mesh.restore_identity(namespace text, service_account text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM mesh_internal.check_workload(namespace, service_account);
  PERFORM mesh_internal.require_write(namespace);
  RETURN mesh_internal.restore_revoked(format('ns/%s/sa/%s', namespace, service_account), NULL);
END $$;

COMMENT ON FUNCTION mesh.restore_identity IS 'Takes back mesh.revoke_identity, and returns whether there was anything to take back.';

-- namespace_of_enrolment returns the namespace of a machine; '' for a server. It refuses anything
-- else.
CREATE OR REPLACE FUNCTION mesh_internal.namespace_of_enrolment(enrolment text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  belongs text;
BEGIN
  SELECT n.namespace INTO belongs FROM (
    SELECT c.namespace FROM mesh.certificates c WHERE c.enrolment = namespace_of_enrolment.enrolment AND c.refusal IS NULL
    UNION ALL
    SELECT t.namespace FROM mesh_internal.join_redemptions r JOIN mesh_internal.join_token_hashes t ON t.id = r.token_id WHERE r.enrolment = namespace_of_enrolment.enrolment
    UNION ALL
    SELECT v.namespace FROM mesh.revocations v WHERE v.enrolment = namespace_of_enrolment.enrolment) n LIMIT 1;
  IF enrolment = '' OR NOT FOUND OR NOT (mesh_internal.sees_all() OR belongs = ANY (mesh_internal.readable_namespaces())) THEN
    RAISE invalid_parameter_value USING MESSAGE = format('no machine %L has ever joined', enrolment), HINT = 'mesh.machines has those that have a certificate, in the column enrolment';
  END IF;
  RETURN belongs;
END $$;

CREATE OR REPLACE FUNCTION mesh.revoke_machine(enrolment text, reason text DEFAULT '') RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  namespace text := mesh_internal.namespace_of_enrolment(enrolment);
BEGIN
  PERFORM mesh_internal.require_write(namespace);
  RETURN mesh_internal.revoke(namespace, NULL, enrolment, reason);
END $$;

COMMENT ON FUNCTION mesh.revoke_machine IS 'Revokes one machine, by its enrolment: it gets no certificates and no configuration. Returns whether that is new.';

CREATE OR REPLACE FUNCTION mesh.restore_machine(enrolment text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM mesh_internal.require_write(mesh_internal.namespace_of_enrolment(enrolment));
  RETURN mesh_internal.restore_revoked(NULL, enrolment);
END $$;

COMMENT ON FUNCTION mesh.restore_machine IS 'Takes back mesh.revoke_machine, and returns whether there was anything to take back.';

-- server_path returns the identity of a server after its trust domain.
CREATE OR REPLACE FUNCTION mesh_internal.server_path(program text, name text) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF (program IN ('mcp-server', 'discovery')) IS NOT TRUE THEN
    RAISE invalid_parameter_value USING MESSAGE = format('%L is no server that has an identity', program), HINT = 'write mcp-server or discovery';
  ELSIF NOT mesh_internal.is_path_segment(name) THEN
    RAISE invalid_parameter_value USING MESSAGE = format('%L cannot be the name of a server', name), HINT = 'at most 253 letters, digits, "-", "." and "_"';
  END IF;
  RETURN format('pgmesh/%s/%s', program, name);
END $$;

CREATE OR REPLACE FUNCTION mesh.revoke_server(program text, name text, reason text DEFAULT '') RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM mesh_internal.require_server('revoke servers');
  RETURN mesh_internal.revoke('', mesh_internal.server_path(program, name), NULL, reason);
END $$;

COMMENT ON FUNCTION mesh.revoke_server IS 'Revokes a server, by its program, which is mcp-server or discovery, and its name. Returns whether that is new.';

CREATE OR REPLACE FUNCTION mesh.restore_server(program text, name text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM mesh_internal.require_server('restore servers');
  RETURN mesh_internal.restore_revoked(mesh_internal.server_path(program, name), NULL);
END $$;

COMMENT ON FUNCTION mesh.restore_server IS 'Takes back mesh.revoke_server, and returns whether there was anything to take back.';

DROP TRIGGER IF EXISTS wake_servers ON mesh.revocations;
CREATE TRIGGER wake_servers AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON mesh.revocations
  FOR EACH STATEMENT EXECUTE FUNCTION mesh_internal.wake_servers();
