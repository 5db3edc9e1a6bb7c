-- every_problem has all that is or may be wrong, from wherever it is known, but for unreachable routes,
-- which are found for one resource or for all at once. mesh.problems shows both.

CREATE OR REPLACE VIEW mesh_internal.every_problem AS
  SELECT * FROM mesh_internal.link_problems
  UNION ALL SELECT *, NULL FROM mesh_internal.selects_nothing
  UNION ALL SELECT *, NULL FROM mesh_internal.empty_subsets
  UNION ALL SELECT *, NULL FROM mesh_internal.unserved
  UNION ALL SELECT *, NULL FROM mesh_internal.unsupported_uses
  UNION ALL SELECT *, NULL FROM mesh_internal.uneven_weights
  UNION ALL SELECT *, NULL FROM mesh_internal.unused_delegates
  UNION ALL SELECT *, NULL FROM mesh_internal.misplaced_mesh_configs
  UNION ALL SELECT *, NULL FROM mesh_internal.foreign_hosts
  UNION ALL SELECT *, NULL FROM mesh_internal.ending_certificates
  UNION ALL SELECT *, NULL FROM mesh_internal.current_findings
  UNION ALL SELECT *, NULL FROM mesh_internal.identity_problems
  UNION ALL SELECT *, NULL FROM mesh_internal.machine_problems
  UNION ALL SELECT *, NULL FROM mesh_internal.reported_problems
  UNION ALL SELECT *, NULL FROM mesh_internal.registry_problems
  UNION ALL SELECT 'error', 'invalid', u.kind, u.api_group, u.namespace, u.name, u.path, u.reason, u.hint, NULL FROM mesh.unsound u
  UNION ALL SELECT 'warning', 'revert-conflict', c.kind, c.api_group, c.namespace, c.name, '',
    format('revision %s was not confirmed, and this could not be reverted: %s', c.revision, c.reason), 'put it as it should be', NULL
    FROM mesh.conflicts c;

COMMENT ON VIEW mesh_internal.every_problem IS 'Internal. Read mesh.problems.';
