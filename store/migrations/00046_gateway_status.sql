-- What discoveries decide of the status of resources of the Gateway API.

-- +goose Up
CREATE TABLE mesh_internal.report_statuses (
  report    bigint      NOT NULL REFERENCES mesh_internal.reports ON DELETE CASCADE,
  api_group text        NOT NULL,
  kind      text        NOT NULL,
  namespace text        NOT NULL,
  name      text        NOT NULL,
  status    jsonb       NOT NULL,
  changed   timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (name, namespace, kind, api_group, report)
);

CREATE INDEX report_statuses_of_report ON mesh_internal.report_statuses (report);

COMMENT ON TABLE mesh_internal.report_statuses IS 'Internal. Read mesh.resource_status.';
COMMENT ON COLUMN mesh_internal.report_statuses.status IS 'What the discovery decides of the status of a resource of the Gateway API, in that API''s shape.';
COMMENT ON COLUMN mesh_internal.report_statuses.changed IS 'Since when the discovery says so.';

-- +goose Down
DROP TABLE mesh_internal.report_statuses;
