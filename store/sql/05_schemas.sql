-- There are two schemas: mesh is for users, and mesh_internal for what it is made of.

COMMENT ON SCHEMA mesh IS 'The mesh, for users, tools and other programs. Each table, view, column and function has a comment, which \d+ and \df+ show.';
COMMENT ON SCHEMA mesh_internal IS 'What the schema mesh is made of. It is not for users, and changes without notice.';

-- Programs before version 39 of the schema installed everything in mesh. What is not for users
-- moves, so that whatever uses it stays.
DO $$
DECLARE
  old record;
BEGIN
  IF EXISTS (SELECT FROM pg_proc WHERE pronamespace = 'mesh_internal'::regnamespace) THEN
    RETURN;
  END IF;
  FOR old IN
    SELECT oid::regprocedure AS routine FROM pg_proc p WHERE pronamespace = 'mesh'::regnamespace
      AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e') -- of an extension
      AND proname <> ALL ('{refuse_between_versions,
      activate_authority,adopt,advance_sequences,as_of,begin_change,blame,check,commit_confirmed,confirm,create_join_token,create_token,delete_secret,diff,diff_text,
      distrust_federated,end_blocker,expired_revision,grant_hosts,grant_namespace,grant_secrets,grant_server,mesh_config,newest_revision,oldest_revision,
      owner_of_host,prune,prune_expired,put_join_issuer,remove_join_issuer,remove_machine,reset_setting,restore,restore_identity,restore_machine,restore_server,
      retire_authority,revert,revert_overdue,revision_at,revoke_hosts,revoke_identity,revoke_join_token,revoke_machine,revoke_namespace,revoke_secrets,
      revoke_server,revoke_token,secret_data,set_default_deny,setting,trust_domain,trust_domains,trust_federated,written_out}'::name[])
  LOOP
    EXECUTE format('ALTER ROUTINE %s SET SCHEMA mesh_internal', old.routine);
  END LOOP;
  FOR old IN SELECT oid::regclass AS view FROM pg_class WHERE relnamespace = 'mesh'::regnamespace AND relkind = 'v' AND obj_description(oid, 'pg_class') LIKE 'Internal%' LOOP
    EXECUTE format('ALTER VIEW %s SET SCHEMA mesh_internal', old.view);
  END LOOP;
END $$;
