-- Secrets have grants of their own: who may read a namespace does not see them, and who may write
-- to it does not change them.

-- holds_secrets reports whether the acting role has one of the privileges on the secrets of all
-- namespaces, is an owner, or is a server.
CREATE OR REPLACE FUNCTION mesh_internal.holds_secrets(privileges text[]) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN mesh_internal.speaks_for_others() OR '*' = ANY (mesh_internal.granted_secrets(privileges));
END $$;

-- granted_secrets lists the namespaces on whose secrets the acting role has one of the privileges.
CREATE OR REPLACE FUNCTION mesh_internal.granted_secrets(privileges text[]) RETURNS text[]
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  acting name := mesh_internal.acting_role();
BEGIN
  RETURN ARRAY(SELECT DISTINCT g.namespace FROM mesh_internal.every_grant g
    WHERE g.secrets AND g.privilege = ANY (privileges) AND pg_has_role(acting, g.role_id, 'USAGE') AND g.held);
END $$;

-- require_secrets refuses a write to the secrets of a namespace that the acting role may not write
-- to.
CREATE OR REPLACE FUNCTION mesh_internal.require_secrets(VARIADIC namespaces text[]) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  missing text;
BEGIN
  IF mesh_internal.holds_secrets('{write}') THEN
    RETURN true;
  END IF;
  SELECT n INTO missing FROM unnest(namespaces) n WHERE n <> ALL (mesh_internal.granted_secrets('{write}')) ORDER BY n LIMIT 1;
  IF FOUND THEN
    RAISE insufficient_privilege USING
      MESSAGE = format('the role %s lacks the privilege to write secrets of the namespace "%s"', quote_ident(mesh_internal.acting_role()), missing),
      HINT    = format('have the owner of the mesh run: SELECT mesh.grant_secrets(%L, %L, ''write'')', mesh_internal.acting_role(), missing);
  END IF;
  RETURN true;
END $$;

DROP POLICY IF EXISTS read_granted ON mesh.secrets;
CREATE POLICY read_granted ON mesh.secrets FOR SELECT
  USING ((SELECT mesh_internal.holds_secrets('{read,write}')) OR namespace = ANY ((SELECT mesh_internal.granted_secrets('{read,write}'))::text[]));

DROP POLICY IF EXISTS insert_granted ON mesh.secrets;
CREATE POLICY insert_granted ON mesh.secrets FOR INSERT WITH CHECK (mesh_internal.require_secrets(namespace));

DROP POLICY IF EXISTS update_granted ON mesh.secrets;
CREATE POLICY update_granted ON mesh.secrets FOR UPDATE
  USING ((SELECT mesh_internal.holds_secrets('{write}')) OR namespace = ANY ((SELECT mesh_internal.granted_secrets('{write}'))::text[]))
  WITH CHECK (mesh_internal.require_secrets(namespace));

DROP POLICY IF EXISTS delete_granted ON mesh.secrets;
CREATE POLICY delete_granted ON mesh.secrets FOR DELETE
  USING ((SELECT mesh_internal.holds_secrets('{write}')) OR namespace = ANY ((SELECT mesh_internal.granted_secrets('{write}'))::text[]));

-- delete_secret lets tenants delete secrets. They have no DELETE, because who may delete from a
-- table may lock it.
CREATE OR REPLACE FUNCTION mesh.delete_secret(namespace text, name text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM mesh_internal.require_secrets(namespace);
  DELETE FROM mesh.secrets s WHERE s.namespace = delete_secret.namespace AND s.name = delete_secret.name;
  RETURN FOUND;
END $$;

COMMENT ON FUNCTION mesh.delete_secret IS 'Deletes a secret, and returns whether there was one.';

-- check_access_to_secrets keeps roles from changing or deleting what they may only read. Row-level
-- security checks where rows go, not where they come from.
CREATE OR REPLACE FUNCTION mesh_internal.check_access_to_secrets() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM mesh_internal.require_secrets(VARIADIC ARRAY(SELECT DISTINCT namespace FROM old_rows));
  RETURN NULL;
END $$;

DROP TRIGGER IF EXISTS check_access_to_updated ON mesh.secrets;
CREATE TRIGGER check_access_to_updated AFTER UPDATE ON mesh.secrets
  REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION mesh_internal.check_access_to_secrets();

DROP TRIGGER IF EXISTS check_access_to_deleted ON mesh.secrets;
CREATE TRIGGER check_access_to_deleted AFTER DELETE ON mesh.secrets
  REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION mesh_internal.check_access_to_secrets();

-- grant_secrets lets a role and its members read or write the secrets of a namespace, or of all
-- ('*'). Write includes read.
CREATE OR REPLACE FUNCTION mesh.grant_secrets(role text, namespace text, privilege text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM mesh_internal.require_owner('grant secrets');
  PERFORM mesh_internal.check_grant(role, nullif(namespace, ''));
  IF (privilege IN ('read', 'write')) IS NOT TRUE THEN
    RAISE invalid_parameter_value USING MESSAGE = format('%L is not a privilege on secrets', privilege), HINT = 'write read or write';
  END IF;
  PERFORM mesh_internal.forget_namesake(role);
  INSERT INTO mesh_internal.secret_grants AS g (role, namespace, privilege, granted_by)
  VALUES (role, namespace, privilege, mesh_internal.acting_role())
  ON CONFLICT ON CONSTRAINT secret_grants_pkey DO UPDATE
    SET privilege = EXCLUDED.privilege, granted_by = EXCLUDED.granted_by, granted_at = now()
    WHERE g.privilege = 'read' AND EXCLUDED.privilege = 'write';
  PERFORM mesh_internal.set_privileges(role);
END $$;

COMMENT ON FUNCTION mesh.grant_secrets IS 'Lets a role read, or read and write, the secrets of a namespace, or of all namespaces (*).';

-- revoke_secrets takes a grant back, and reports whether there was one.
CREATE OR REPLACE FUNCTION mesh.revoke_secrets(role text, namespace text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  revoked boolean;
  held    boolean := mesh_internal.holds_grants(role);
BEGIN
  PERFORM mesh_internal.require_owner('revoke secrets'), mesh_internal.refuse_owner(role, 'has what it has by that');
  DELETE FROM mesh_internal.secret_grants g WHERE g.role = revoke_secrets.role AND g.namespace = revoke_secrets.namespace;
  revoked := FOUND;
  IF held THEN
    PERFORM mesh_internal.set_privileges(role);
  END IF;
  RETURN revoked;
END $$;

COMMENT ON FUNCTION mesh.revoke_secrets IS 'Takes back a grant of mesh.grant_secrets, and returns whether there was one.';
