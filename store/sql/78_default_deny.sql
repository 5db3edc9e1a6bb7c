-- Default deny: only those are let in whom an AuthorizationPolicy allows, and sidecars accept only
-- mutual TLS. Two resources of the root namespace make it so, such as Istio's users write. This is
-- the one switch for both.

-- allows_nothing reports whether an AuthorizationPolicy of the root namespace allows nothing, for
-- the whole mesh.
CREATE OR REPLACE FUNCTION mesh_internal.allows_nothing(spec jsonb, annotations jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
  SELECT coalesce(spec ->> 'action', 'ALLOW') IN ('ALLOW', '0') AND coalesce(nullif(spec -> 'rules', 'null'), '[]') = '[]' AND mesh_internal.is_for_all(spec)
    AND lower(coalesce(annotations ->> 'istio.io/dry-run', 'false')) NOT IN ('true', 't', '1')
$$;

-- is_for_all reports whether a policy of the root namespace selects no particular workloads.
CREATE OR REPLACE FUNCTION mesh_internal.is_for_all(spec jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
  SELECT coalesce(nullif(mesh_internal.field_of(spec, '{selector,matchLabels}', 'match_labels'), 'null'), '{}') = '{}'
    AND coalesce(nullif(mesh_internal.field_of(spec, '{targetRef}', 'target_ref'), 'null'), '{}') = '{}'
    AND coalesce(nullif(mesh_internal.field_of(spec, '{targetRefs}', 'target_refs'), 'null'), '[]') = '[]'
$$;

-- tls_mode returns the mode of a PeerAuthentication for all ports; UNSET if it inherits.
CREATE OR REPLACE FUNCTION mesh_internal.tls_mode(spec jsonb) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
  SELECT coalesce((ARRAY['UNSET', 'DISABLE', 'PERMISSIVE', 'STRICT'])[(substring(spec #>> '{mtls,mode}' FROM '^[0-3]$'))::int + 1], spec #>> '{mtls,mode}', 'UNSET')
$$;

-- find_default_deny tells everybody whether default deny is on, and tells those who may read the
-- root namespace which resources make it so.
CREATE OR REPLACE FUNCTION mesh_internal.find_default_deny() RETURNS TABLE (enabled boolean, policy text, mutual_tls text, peer_authentication text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  root     text := mesh_internal.root_namespace();
  readable boolean := mesh_internal.sees_all() OR root = ANY (mesh_internal.readable_namespaces());
BEGIN
  SELECT r.name INTO policy FROM mesh.resources r
    WHERE r.kind = 'AuthorizationPolicy' AND r.api_group = 'security.istio.io' AND r.namespace = root AND mesh_internal.allows_nothing(r.spec, r.annotations)
    ORDER BY r.created_at, r.name LIMIT 1;
  enabled := FOUND;
  SELECT r.name, mesh_internal.tls_mode(r.spec) INTO peer_authentication, mutual_tls FROM mesh.resources r
    WHERE r.kind = 'PeerAuthentication' AND r.api_group = 'security.istio.io' AND r.namespace = root AND mesh_internal.is_for_all(r.spec)
    ORDER BY r.created_at, r.name LIMIT 1;
  mutual_tls := coalesce(nullif(mutual_tls, 'UNSET'), 'PERMISSIVE');
  IF NOT readable THEN
    policy := NULL;
    peer_authentication := NULL;
  END IF;
  RETURN NEXT;
END $$;

CREATE OR REPLACE VIEW mesh.default_deny AS SELECT * FROM mesh_internal.find_default_deny();

COMMENT ON VIEW mesh.default_deny IS 'Whether only those are let in whom an AuthorizationPolicy allows, and which mutual TLS sidecars demand by default. mesh.set_default_deny changes it.';
COMMENT ON COLUMN mesh.default_deny.enabled IS 'Whether default deny is on.';
COMMENT ON COLUMN mesh.default_deny.policy IS 'The AuthorizationPolicy of the root namespace that turns it on.';
COMMENT ON COLUMN mesh.default_deny.mutual_tls IS 'STRICT, PERMISSIVE or DISABLE.';
COMMENT ON COLUMN mesh.default_deny.peer_authentication IS 'The PeerAuthentication of the root namespace that says so.';
CREATE OR REPLACE VIEW mesh.default_deny_exceptions AS
  SELECT r.kind, r.namespace, r.name, 'its rule ' || (n - 1) || ' allows ' || CASE WHEN jsonb_typeof(rule -> 'to') = 'array' AND rule -> 'to' <> '[]'
      THEN 'some requests to everybody' ELSE 'everything to everybody' END AS exception
    FROM mesh.readable_resources r, jsonb_array_elements(CASE jsonb_typeof(r.spec -> 'rules') WHEN 'array' THEN r.spec -> 'rules' ELSE '[]' END) WITH ORDINALITY AS rules (rule, n)
    WHERE r.kind = 'AuthorizationPolicy' AND r.api_group = 'security.istio.io' AND coalesce(r.spec ->> 'action', 'ALLOW') IN ('ALLOW', '0')
      AND coalesce(nullif(rule -> 'from', 'null'), '[]') = '[]' AND coalesce(nullif(rule -> 'when', 'null'), '[]') = '[]'
      AND lower(coalesce(r.annotations ->> 'istio.io/dry-run', 'false')) NOT IN ('true', 't', '1')
  UNION ALL
  SELECT r.kind, r.namespace, r.name, CASE WHEN mesh_internal.tls_mode(r.spec) IN ('PERMISSIVE', 'DISABLE') THEN 'it takes plaintext' ELSE 'it takes plaintext on some ports' END
    FROM mesh.readable_resources r
    WHERE r.kind = 'PeerAuthentication' AND r.api_group = 'security.istio.io' AND (mesh_internal.tls_mode(r.spec) IN ('PERMISSIVE', 'DISABLE')
      OR jsonb_path_exists(coalesce(mesh_internal.field_of(r.spec, '{portLevelMtls}', 'port_level_mtls'), '{}'), '$.*.mode ? (@ == "PERMISSIVE" || @ == "DISABLE" || @ == 1 || @ == 2)'));

COMMENT ON VIEW mesh.default_deny_exceptions IS 'What lets in others than named members: AuthorizationPolicies that allow something to everybody, and PeerAuthentications that accept plaintext.';
COMMENT ON COLUMN mesh.default_deny_exceptions.kind IS 'The kind of the policy.';
COMMENT ON COLUMN mesh.default_deny_exceptions.namespace IS 'The namespace of the policy.';
COMMENT ON COLUMN mesh.default_deny_exceptions.name IS 'The name of the policy.';
COMMENT ON COLUMN mesh.default_deny_exceptions.exception IS 'What it allows, and to whom.';

-- set_default_deny runs with the rights of its caller, who needs to write to the root namespace.
CREATE OR REPLACE FUNCTION mesh.set_default_deny(enabled boolean)
RETURNS TABLE (operation text, api_group text, kind text, namespace text, name text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  root text := mesh_internal.root_namespace();
BEGIN
  IF NOT (mesh_internal.writes_all() OR root = ANY (mesh_internal.writable_namespaces())) THEN
    RAISE insufficient_privilege USING MESSAGE = format('the role %s may not write to the root namespace "%s", whose policies hold for the whole mesh', quote_ident(mesh_internal.acting_role()), root),
      HINT = 'have the owner of the mesh call mesh.set_default_deny';
  END IF;
  PERFORM mesh_internal.name_unnamed('default deny ' || CASE WHEN enabled THEN 'on' ELSE 'off' END);
  IF NOT enabled THEN
    RETURN QUERY DELETE FROM mesh.authorization_policies r WHERE r.namespace = root AND mesh_internal.allows_nothing(r.spec, r.annotations)
      RETURNING 'delete', 'security.istio.io', 'AuthorizationPolicy', r.namespace, r.name;
    RETURN;
  END IF;
  IF NOT EXISTS (SELECT FROM mesh_internal.find_default_deny() d WHERE d.enabled) THEN
    RETURN QUERY SELECT * FROM mesh_internal.add_default('AuthorizationPolicy', 'default-deny', '{}');
  END IF;
  RETURN QUERY UPDATE mesh.peer_authentications r SET spec = jsonb_set(r.spec, '{mtls}', '{"mode": "STRICT"}')
    WHERE r.namespace = root AND r.name = (SELECT d.peer_authentication FROM mesh_internal.find_default_deny() d WHERE d.mutual_tls <> 'STRICT')
    RETURNING 'update', 'security.istio.io', 'PeerAuthentication', r.namespace, r.name;
  IF EXISTS (SELECT FROM mesh_internal.find_default_deny() d WHERE d.peer_authentication IS NULL) THEN
    RETURN QUERY SELECT * FROM mesh_internal.add_default('PeerAuthentication', 'default', '{"mtls": {"mode": "STRICT"}}');
  END IF;
END $$;

COMMENT ON FUNCTION mesh.set_default_deny IS 'Turns default deny on for the whole mesh: only those are let in whom an AuthorizationPolicy allows, and sidecars accept only mutual TLS. Or turns it off, which leaves mutual TLS as it is. Returns what it changed.';

-- add_default creates a resource of the root namespace, unless there is another of its name.
CREATE OR REPLACE FUNCTION mesh_internal.add_default(of_kind text, of_name text, of_spec jsonb)
RETURNS TABLE (operation text, api_group text, kind text, namespace text, name text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  root text := mesh_internal.root_namespace();
BEGIN
  IF EXISTS (SELECT FROM mesh.resources r WHERE r.kind = of_kind AND r.api_group = 'security.istio.io' AND r.namespace = root AND r.name = of_name) THEN
    RAISE unique_violation USING MESSAGE = format('%s %s/%s is there already, and is about something else', of_kind, root, of_name),
      HINT = 'give that one another name';
  END IF;
  RETURN QUERY INSERT INTO mesh.resources AS r (api_group, kind, namespace, name, spec) VALUES ('security.istio.io', of_kind, root, of_name, of_spec)
    RETURNING 'create', r.api_group, r.kind, r.namespace, r.name;
END $$;

COMMENT ON FUNCTION mesh_internal.add_default IS 'Internal. Call mesh.set_default_deny.';
