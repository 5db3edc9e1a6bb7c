-- Gateways and rules name secrets, which must exist and have valid certificates. Proxies look in
-- their own namespace, which is not known here. So a secret of that name in any namespace will do,
-- unless the reference names one.

CREATE OR REPLACE VIEW mesh_internal.dangling_credentials AS
  SELECT 'error' AS severity, 'unknown-credential' AS code, l.kind, l.api_group, l.namespace, l.name, l.path,
    format('there is no secret %s', concat_ws('/', nullif(l.part, ''), l.target)) AS message,
    CASE WHEN l.api_group = 'extensions.istio.io' THEN 'put one of the type kubernetes.io/dockerconfigjson into mesh.secrets, in the namespace of the extension, or correct the name'
      ELSE 'put it into mesh.secrets, in the namespace of the gateway''s proxies, or correct the name' END AS hint
  FROM mesh_internal.every_link l
  WHERE l.role = 'credential' AND NOT l.hidden AND NOT EXISTS (SELECT FROM mesh.secrets s WHERE s.name = l.target AND (l.part = '' OR s.namespace = l.part))
    AND NOT mesh_internal.registries_lend(l.target, l.part);

COMMENT ON VIEW mesh_internal.dangling_credentials IS 'Internal. Read mesh.problems.';

-- credentials_broken returns the references to secrets that a transaction has deleted.
CREATE OR REPLACE FUNCTION mesh_internal.credentials_broken(of bigint) RETURNS mesh_internal.link_problem[]
LANGUAGE sql STABLE AS $$
  SELECT coalesce(array_agg((p.severity, p.code, p.kind, p.api_group, p.namespace, p.name, p.path, p.message, p.hint)::mesh_internal.link_problem), '{}')
  FROM mesh_internal.secret_changes c
    JOIN mesh_internal.links l ON l.role = 'credential' AND l.target = c.name AND (l.part = '' OR l.part = c.namespace)
    JOIN mesh_internal.dangling_credentials p ON (p.kind, p.api_group, p.namespace, p.name, p.path) = (l.kind, l.api_group, l.namespace, l.name, l.path)
  WHERE c.transaction_id = of AND c.after IS NULL
$$;

-- dated_secrets has when the certificates of secrets are valid, wherever they are kept.
CREATE OR REPLACE VIEW mesh_internal.dated_secrets AS
  SELECT s.namespace, s.name, s.not_before, s.not_after FROM mesh.secrets s
  UNION ALL
  SELECT l.namespace, l.name, l.not_before, l.not_after FROM mesh_internal.lent_secrets() l;

COMMENT ON VIEW mesh_internal.dated_secrets IS 'Internal. Read mesh.problems.';

-- A certificate should be renewed two weeks before it expires, or, if it is valid for less than six
-- weeks, in the last third of its time.
CREATE OR REPLACE VIEW mesh_internal.ending_certificates AS
  SELECT CASE WHEN s.not_after <= now() THEN 'error' ELSE 'warning' END AS severity,
    CASE WHEN s.not_after <= now() THEN 'certificate-expired' ELSE 'certificate-expires' END AS code,
    'Secret' AS kind, 'core' AS api_group, s.namespace, s.name, '' AS path,
    format('its certificate %s at %s', CASE WHEN s.not_after <= now() THEN 'has expired' ELSE 'expires' END,
      to_char(s.not_after AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')) AS message,
    'put a new one in its place' AS hint
  FROM mesh_internal.dated_secrets s
  WHERE s.not_after <= now() + least(interval '14 days', (s.not_after - s.not_before) / 3)
  UNION ALL
  SELECT 'warning', 'certificate-not-yet-valid', 'Secret', 'core', s.namespace, s.name, '',
    format('its certificate is valid only from %s on', to_char(s.not_before AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')), 'wait, or put another in its place'
  FROM mesh_internal.dated_secrets s
  WHERE s.not_before > now()
  UNION ALL
  SELECT 'warning', 'key-for-all-gateways', 'Secret', 'core', s.namespace, s.name, 'serviceAccounts',
    'its private key is given to every machine of the namespace that calls itself a gateway', 'name the service accounts of the gateways, or * if all of them are meant'
  FROM mesh.secrets s
  WHERE s.service_accounts = '{}' AND s.data ?| '{tls.key,key}';

COMMENT ON VIEW mesh_internal.ending_certificates IS 'Internal. Read mesh.problems.';
