-- What servers of the release before call or read by its old name, while they run beside this one.
-- The next release drops it.

DO $$
DECLARE
  called CONSTANT name[] := '{add_authority,add_sealing_key,changed_since,chores,current_rules,end_workload_sessions,examine_change,first_authority,foreign_claims,
    known_revision,namespace_of_enrolment,note_control_plane,note_token_uses,note_trust,notification_queue_usage,open_workload_session,prune_certificates,
    recheck,record_certificates,redeem_join_tokens,refresh_workload_sessions,register_workloads,release_sink,remove_gone_workloads,remove_orphaned_workloads,
    report_findings,reseal_authority,revision_of,revoke_join_token_among,root_namespace,speaks_for_others,take_sink,tell_sink,watch_workloads}';
  read   CONSTANT name[] := '{authority_keys,changes,findings,installation,namespace_grants,running_transaction,secret_changes,transactions,trust_names,trust_readings}';
  moved  record;
  reader regrole;
BEGIN
  FOR moved IN
    SELECT p.proname AS name, pg_get_function_arguments(p.oid) AS arguments, pg_get_function_identity_arguments(p.oid) AS signature, pg_get_function_result(p.oid) AS result,
      (SELECT string_agg('$' || i, ', ' ORDER BY i) FROM generate_series(1, p.pronargs) i) AS given
    FROM pg_proc p WHERE p.pronamespace = 'mesh_internal'::regnamespace AND p.proname = ANY (called)
  LOOP
    EXECUTE format('CREATE OR REPLACE FUNCTION mesh.%I(%s) RETURNS %s LANGUAGE sql AS %L', moved.name, moved.arguments, moved.result,
      format('SELECT * FROM mesh_internal.%I(%s)', moved.name, moved.given));
    EXECUTE format('COMMENT ON FUNCTION mesh.%I(%s) IS %L', moved.name, moved.signature, 'Deprecated. Servers of the release before call it; the next release drops it.');
  END LOOP;
  FOR moved IN SELECT c.relname AS name, c.relacl, c.relowner FROM pg_class c WHERE c.relnamespace = 'mesh_internal'::regnamespace AND c.relname = ANY (read) LOOP
    EXECUTE format('CREATE OR REPLACE VIEW mesh.%I AS SELECT * FROM mesh_internal.%1$I', moved.name);
    EXECUTE format('COMMENT ON VIEW mesh.%I IS %L', moved.name, 'Deprecated. Servers of the release before read it; the next release drops it.');
    FOR reader IN SELECT a.grantee FROM aclexplode(moved.relacl) a WHERE a.privilege_type = 'SELECT' AND a.grantee NOT IN (0, moved.relowner) LOOP
      EXECUTE format('GRANT SELECT ON mesh.%I TO %s', moved.name, reader);
    END LOOP;
  END LOOP;
END $$;
