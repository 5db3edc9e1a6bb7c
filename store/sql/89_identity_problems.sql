-- What is wrong with members, or those about to join. They are not resources, so they have kinds of
-- their own in mesh.problems.

-- An authority should be replaced, and the roots of another mesh fetched again, a month before they
-- expire, or, if they are valid for less than three months, in the last third of their time.
CREATE OR REPLACE VIEW mesh_internal.identity_problems AS
  SELECT CASE WHEN e.not_after <= now() THEN 'error' ELSE 'warning' END AS severity,
    e.code || CASE WHEN e.not_after <= now() THEN '-expired' ELSE '-expires' END AS code, e.kind, 'identity.pgmesh.io' AS api_group, '' AS namespace, e.name, '' AS path,
    format('%s %s at %s', e.what, CASE WHEN e.not_after <= now() THEN 'has expired' ELSE e.verb END, to_char(e.not_after AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')) AS message, e.hint
  FROM (
    SELECT 'authority' AS code, 'Authority' AS kind, a.id::text AS name, a.not_after, 'the authority that signs certificates' AS what, 'expires' AS verb,
      'make another and let it sign: mcp-client authority rotate' AS hint, (a.not_after - a.not_before) / 3 AS third
      FROM mesh_internal.authority_keys a WHERE a.state = 'active'
    UNION ALL
    SELECT 'federated-trust', 'FederatedTrust', f.trust_domain, f.not_after, 'the roots of the other mesh', 'expire',
      'ask its operators for the new ones, and write them: mcp-client trust add', interval '30 days'
      FROM mesh.federated_trust f) e
  WHERE e.not_after <= now() + least(interval '30 days', e.third)
  UNION ALL
  SELECT 'warning', 'unknown-workload-group', 'JoinToken', 'identity.pgmesh.io', t.namespace, t.name, '',
    format('the WorkloadGroup %s/%s that it is for is gone, and nobody can join with it', t.namespace, t.workload_group), 'write the group again, or revoke the token'
  FROM mesh_internal.join_token_hashes t
  WHERE t.workload_group IS NOT NULL AND t.revoked_at IS NULL AND t.expires_at > now() AND t.uses < t.max_uses AND mesh_internal.account_of_group(t.namespace, t.workload_group) IS NULL
  UNION ALL
  SELECT 'warning', 'unknown-workload-group', 'JoinIssuer', 'identity.pgmesh.io', '', i.name, '',
    format('there is no WorkloadGroup %s/%s', i.namespace, i.workload_group), 'write it, or leave the group out'
  FROM mesh.join_issuers i
  WHERE i.workload_group <> '' AND mesh_internal.account_of_group(i.namespace, i.workload_group) IS NULL;

COMMENT ON VIEW mesh_internal.identity_problems IS 'Internal. Read mesh.problems.';

-- tokens_orphaned returns the join tokens for WorkloadGroups that a transaction has deleted.
CREATE OR REPLACE FUNCTION mesh_internal.tokens_orphaned(of bigint) RETURNS mesh_internal.link_problem[]
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(array_agg((p.severity, p.code, p.kind, p.api_group, p.namespace, p.name, p.path, p.message, p.hint)::mesh_internal.link_problem), '{}')
  FROM mesh_internal.identity_problems p
  WHERE p.kind = 'JoinToken' AND EXISTS (
    SELECT FROM mesh_internal.join_token_hashes t JOIN mesh_internal.changes c ON c.transaction_id = of AND c.kind = 'WorkloadGroup' AND c.namespace = t.namespace AND c.name = t.workload_group
    WHERE t.namespace = p.namespace AND t.name = p.name AND c.after_spec IS NULL)
$$;
