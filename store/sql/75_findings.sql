-- What mcp-server, and perhaps others, find wrong with resources and SQL cannot. Any server may
-- report: all examine the same revisions of the same resources by the same rules, so a second
-- report changes nothing.

-- report_findings replaces what an examination has found: of each resource in the list that still
-- is at the revision which was examined. [{"api_group", "kind", "namespace", "name", "revision",
-- "findings": [{"severity", "code", "path", "message", "hint"}]}]
CREATE OR REPLACE FUNCTION mesh_internal.report_findings(source text, examined jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM mesh_internal.require_server('report findings');
  DELETE FROM mesh_internal.findings f USING jsonb_to_recordset(examined) AS e (api_group text, kind text, namespace text, name text, revision bigint, findings jsonb)
    WHERE f.source = report_findings.source AND (f.api_group, f.kind, f.namespace, f.name) = (e.api_group, e.kind, e.namespace, e.name)
      AND f.revision <= e.revision AND NOT EXISTS (
        SELECT FROM jsonb_to_recordset(e.findings) AS k (code text, path text, message text) WHERE (f.code, f.path, f.message) = (k.code, k.path, k.message));
  INSERT INTO mesh_internal.findings AS f
    SELECT DISTINCT ON (e.name, e.namespace, e.kind, e.api_group, k.code, k.path, k.message)
      source, e.api_group, e.kind, e.namespace, e.name, e.revision, k.severity, k.code, k.path, k.message, k.hint
    FROM jsonb_to_recordset(examined) AS e (api_group text, kind text, namespace text, name text, revision bigint, findings jsonb),
      jsonb_to_recordset(e.findings) AS k (severity text, code text, path text, message text, hint text)
    ON CONFLICT ON CONSTRAINT findings_pkey
      DO UPDATE SET revision = EXCLUDED.revision, severity = EXCLUDED.severity, hint = EXCLUDED.hint WHERE f.revision < EXCLUDED.revision;
  DELETE FROM mesh_internal.findings f WHERE f.source = report_findings.source AND NOT EXISTS (SELECT FROM mesh.resources r
    WHERE (r.name, r.namespace, r.kind, r.api_group) = (f.name, f.namespace, f.kind, f.api_group));
END $$;

COMMENT ON FUNCTION mesh_internal.report_findings IS 'Internal. Servers report by it what they find wrong with resources.';

-- current_findings are those of resources that are still as they were examined.
CREATE OR REPLACE VIEW mesh_internal.current_findings AS
  SELECT f.severity, f.code, f.kind, f.api_group, f.namespace, f.name, f.path, f.message, f.hint
  FROM mesh_internal.findings f
    JOIN mesh.resources r USING (name, namespace, kind, api_group)
    LEFT JOIN mesh_internal.transactions t ON t.xid = r.xid AND t.begun_at = r.updated_at
  WHERE f.revision = coalesce(t.revision, 0);

COMMENT ON VIEW mesh_internal.current_findings IS 'Internal. Read mesh.problems.';
