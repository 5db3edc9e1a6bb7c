-- What discoveries report of resources that registries have. A change in a registry is no revision, so the number of a push says
-- who runs it.

-- +goose Up
ALTER TABLE mesh_internal.reports ADD COLUMN push bigint NOT NULL DEFAULT 0;
ALTER TABLE mesh_internal.reported_proxies ADD COLUMN push bigint;
ALTER TABLE mesh_internal.registry_entries ADD COLUMN changed timestamptz NOT NULL DEFAULT now();

COMMENT ON COLUMN mesh_internal.reports.push IS 'The push that all proxies in step run; 0 from discoveries that do not count them.';
COMMENT ON COLUMN mesh_internal.reported_proxies.push IS 'The push that the proxy runs; NULL for that of the report.';
COMMENT ON COLUMN mesh_internal.registry_entries.changed IS 'When this version came.';

CREATE TABLE mesh_internal.report_versions (
  report    bigint NOT NULL REFERENCES mesh_internal.reports ON DELETE CASCADE,
  api_group text   NOT NULL,
  kind      text   NOT NULL,
  namespace text   NOT NULL,
  name      text   NOT NULL,
  version   text   NOT NULL,
  push      bigint NOT NULL,
  PRIMARY KEY (name, namespace, kind, api_group, report)
);

CREATE INDEX report_versions_of_report ON mesh_internal.report_versions (report);

COMMENT ON TABLE mesh_internal.report_versions IS 'Internal. Read mesh.resource_status.';
COMMENT ON COLUMN mesh_internal.report_versions.version IS 'Which version of a registry''s resource the discovery has, as in mesh_internal.registry_entries.';
COMMENT ON COLUMN mesh_internal.report_versions.push IS 'Which push brings it to proxies.';

-- +goose Down
DROP TABLE mesh_internal.report_versions;
ALTER TABLE mesh_internal.registry_entries DROP COLUMN changed;
ALTER TABLE mesh_internal.reported_proxies DROP COLUMN push;
ALTER TABLE mesh_internal.reports DROP COLUMN push;
