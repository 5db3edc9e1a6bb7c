-- name: Trust
-- What the mesh trusts: one statement, so that everything is of one moment.
SELECT now(), mesh.trust_domains(),
  (SELECT coalesce(json_agg(json_build_object('ID', id, 'State', state, 'Fingerprint', fingerprint, 'Chain', encode(convert_to(chain, 'UTF8'), 'base64'),
      'NotBefore', not_before, 'NotAfter', not_after, 'Created', created_at, 'By', created_by, 'Activated', activated_at, 'Replaced', replaced_at)
      ORDER BY array_position('{active,next,previous}', state), id DESC), '[]')
    FROM mesh.authorities WHERE state <> 'retired'),
  (SELECT coalesce(json_agg(json_build_object('TrustDomain', trust_domain, 'Roots', encode(convert_to(roots, 'UTF8'), 'base64'), 'NotAfter', not_after,
      'Author', author, 'Updated', updated_at) ORDER BY trust_domain), '[]') FROM mesh.federated_trust),
  (SELECT coalesce(json_agg(json_build_object('Namespace', namespace, 'Identity', coalesce(identity, ''), 'Enrolment', coalesce(enrolment, ''), 'Reason', reason,
      'At', revoked_at, 'By', revoked_by) ORDER BY id), '[]') FROM mesh.revocations WHERE lifted_at IS NULL),
  (SELECT coalesce(json_agg(json_build_object('Name', name, 'Issuer', issuer, 'Audiences', audiences, 'JWKS', coalesce(jwks::text, ''), 'JWKSURI', coalesce(jwks_uri, ''),
      'Claims', claims, 'Namespace', namespace, 'ServiceAccount', service_account, 'WorkloadGroup', workload_group, 'Author', author, 'Updated', updated_at)
      ORDER BY name COLLATE "C"), '[]') FROM mesh.join_issuers),
  n.lifetimes, n.own_gateways
FROM mesh_internal.trust_names n

-- name: TrustFederated
-- Trusts another mesh, by its roots.
SELECT mesh.trust_federated($1, $2)

-- name: DistrustFederated
-- Ends the trust in another mesh, and says whether there was any.
SELECT mesh.distrust_federated($1)

-- name: PutJoinIssuer
-- Adds a rule about an issuer of tokens, or replaces it.
SELECT mesh.put_join_issuer($1, $2, $3, nullif($4, '')::jsonb, nullif($5, ''), $6, $7, $8, $9)

-- name: RemoveJoinIssuer
-- Removes such a rule, and says whether there was one.
SELECT mesh.remove_join_issuer($1)

-- name: NoteTrust
-- Keeps when a server has read the trust.
SELECT mesh_internal.note_trust($1, $2, $3)

-- name: Now
-- The time by the database's clock.
SELECT clock_timestamp()

-- name: TrustLags
-- Which running servers, but for one, have not read the trust since a time.
SELECT DISTINCT name FROM mesh_internal.trust_readings
WHERE read_at < $1 AND noted_at > clock_timestamp() - $2::interval AND server <> $3 ORDER BY name
