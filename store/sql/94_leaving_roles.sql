-- A role that leaves takes nothing of the mesh along.

CREATE OR REPLACE FUNCTION mesh.revoke_all(role text) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  revoked int;
BEGIN
  PERFORM mesh_internal.require_owner('revoke what was granted to roles'), mesh_internal.refuse_owner(role, 'has what it has by that');
  WITH of_namespaces AS (DELETE FROM mesh_internal.namespace_grants g WHERE g.role = revoke_all.role RETURNING 1),
    of_secrets AS (DELETE FROM mesh_internal.secret_grants g WHERE g.role = revoke_all.role RETURNING 1)
  SELECT (SELECT count(*) FROM of_namespaces) + (SELECT count(*) FROM of_secrets) INTO revoked;
  IF to_regrole(quote_ident(role)) IS NOT NULL THEN
    IF revoked = 0 AND EXISTS (SELECT FROM pg_namespace n, aclexplode(n.nspacl) a WHERE n.nspname IN ('mesh', 'mesh_internal') AND a.grantee = to_regrole(quote_ident(role))::oid) THEN
      RAISE NOTICE 'the role % had privileges without a grant of its name, as a renamed role has, and has them no more', quote_ident(role) USING HINT = 'mesh.check_installation() tells of grants to its former name';
      revoked := 1;
    END IF;
    PERFORM mesh_internal.set_privileges(role);
  ELSIF revoked = 0 THEN -- most likely it is misspelt
    RAISE undefined_object USING MESSAGE = format('there is no role %s, and no grant to one of that name', coalesce(quote_ident(role), 'NULL')), HINT = 'see mesh.grants';
  END IF;
  RETURN revoked;
END $$;

COMMENT ON FUNCTION mesh.revoke_all IS 'Takes back all grants of a role, those on secrets too, so that the mesh does not stand in the way of DROP ROLE. Returns how many there were; what a renamed role has left of grants to its former name counts as one. The role may be gone already.';
