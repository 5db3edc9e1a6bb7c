-- What discoveries find wrong, which depends on which proxies are connected, and what sorts of
-- problems there are.

-- problem_codes says which condition of mesh.resource_status shows a problem, if it is not the one
-- for its severity, and how that calls it, where the Gateway API has a word. For codes that
-- discoveries report it also has the severity, and a hint.
CREATE OR REPLACE VIEW mesh_internal.problem_codes AS
  SELECT * FROM (VALUES
    ('unknown-host', 'ResolvedRefs', NULL, NULL, NULL),
    ('unknown-port', 'ResolvedRefs', NULL, NULL, NULL),
    ('ambiguous-port', 'ResolvedRefs', NULL, NULL, NULL),
    ('unknown-subset', 'ResolvedRefs', NULL, NULL, NULL),
    ('unknown-gateway', 'ResolvedRefs', NULL, NULL, NULL),
    ('unknown-delegate', 'ResolvedRefs', NULL, NULL, NULL),
    ('unknown-backend', 'ResolvedRefs', 'BackendNotFound', NULL, NULL),
    ('unknown-target', 'ResolvedRefs', 'TargetNotFound', NULL, NULL),
    ('unknown-credential', 'ResolvedRefs', 'InvalidCertificateRef', NULL, NULL),
    ('not-permitted', 'ResolvedRefs', 'RefNotPermitted', NULL, NULL),
    ('bad-entry', 'Accepted', 'Invalid', NULL, NULL),
    ('unknown-parent', 'Accepted', 'NoMatchingParent', NULL, NULL),
    ('unknown-listener', 'Accepted', 'NoMatchingParent', NULL, NULL),
    ('not-allowed', 'Accepted', 'NotAllowedByListeners', NULL, NULL),
    ('host-conflict', 'Conflicted', NULL, NULL, NULL),
    ('routed-twice', 'Conflicted', NULL, NULL, NULL),
    ('captured-host', 'Conflicted', NULL, NULL, NULL),
    ('conflicting-protocols', 'Conflicted', NULL, NULL, NULL),
    ('conflicting-services', 'Conflicted', NULL, NULL, NULL),
    ('duplicate-service', 'Conflicted', NULL, NULL, NULL),
    ('duplicate-subset', 'Conflicted', NULL, NULL, NULL),
    ('duplicate-rule', 'Conflicted', NULL, NULL, NULL),
    ('duplicate-default', 'Conflicted', NULL, NULL, NULL),
    ('address-conflict', 'Conflicted', NULL, NULL, NULL),
    ('gateway-conflict', 'Conflicted', NULL, NULL, NULL),
    ('port-conflict', 'Conflicted', NULL, NULL, NULL),
    ('not-as-written', NULL, NULL, 'error', 'change this resource, or the one that stands in its way'),
    ('left-out', 'Conflicted', NULL, 'error', 'change this resource, or the one that stands in its way'),
    ('patch-not-applied', NULL, NULL, 'error', 'correct the patch: docs/envoyfilter.md says what patches can do'),
    ('secret-denied', NULL, NULL, 'error', 'write the secret so that the proxy may have it, or correct who names it'),
    ('keys-missing', 'ResolvedRefs', NULL, 'error', 'have the keys served where the resource says, or write them into it'))
    AS codes (code, condition, reason, severity, hint);

COMMENT ON VIEW mesh_internal.problem_codes IS 'Internal. Read mesh.problems.';

-- reported_problems has what discoveries that report now find wrong with resources and secrets that
-- there are, in the database or in a registry. What several find is one row.
CREATE OR REPLACE VIEW mesh_internal.reported_problems AS
  SELECT DISTINCT coalesce(c.severity, 'warning') AS severity, p.code, p.kind, p.api_group, p.namespace, p.name, p.path, p.message, c.hint
  FROM mesh_internal.report_problems o JOIN mesh_internal.reports r ON r.id = o.report,
    LATERAL jsonb_to_recordset(o.problems) AS p (code text, kind text, api_group text, namespace text, name text, path text, message text)
    LEFT JOIN mesh_internal.problem_codes c ON c.code = p.code
  WHERE r.ended IS NULL AND r.keeper = ANY ((SELECT mesh_internal.live_keepers())::int[])
    AND (EXISTS (SELECT FROM mesh.resources e WHERE (e.name, e.namespace, e.kind, e.api_group) = (p.name, p.namespace, p.kind, p.api_group))
      OR EXISTS (SELECT FROM mesh_internal.registry_entries e WHERE (e.name, e.namespace, e.kind, e.api_group) = (p.name, p.namespace, p.kind, p.api_group))
      OR (p.kind, p.api_group) = ('Secret', 'core') AND EXISTS (SELECT FROM mesh.secrets s WHERE (s.namespace, s.name) = (p.namespace, p.name)));

COMMENT ON VIEW mesh_internal.reported_problems IS 'Internal. Read mesh.problems.';
