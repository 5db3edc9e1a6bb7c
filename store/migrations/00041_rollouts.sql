-- What proxies refuse, how far revisions have come, whom resources concern, and what discoveries find wrong. A report brings
-- it, and takes it along.

-- +goose Up
ALTER TABLE mesh_internal.reported_proxies ADD COLUMN circle bigint NOT NULL DEFAULT 0, ADD COLUMN certificate_ends timestamptz, ADD COLUMN refusals jsonb;

COMMENT ON COLUMN mesh_internal.reported_proxies.circle IS 'The same resources concern all proxies of a circle. The number counts within the report.';
COMMENT ON COLUMN mesh_internal.reported_proxies.refusals IS 'The resources of Envoy that it refuses: a list of objects, with what each was made from; NULL for none.';

CREATE TABLE mesh_internal.report_rollouts (
  report   bigint      NOT NULL REFERENCES mesh_internal.reports ON DELETE CASCADE,
  revision bigint      NOT NULL,
  after    bigint      NOT NULL,
  began    timestamptz NOT NULL,
  parts    jsonb       NOT NULL,
  PRIMARY KEY (report, revision)
) WITH (fillfactor = 50);

COMMENT ON TABLE mesh_internal.report_rollouts IS 'Internal. Read mesh.rollouts.';
COMMENT ON COLUMN mesh_internal.report_rollouts.revision IS 'The newest revision of a push, which had those from "after" on.';
COMMENT ON COLUMN mesh_internal.report_rollouts.parts IS 'A list of objects, one for each namespace. One column, so that a push that goes on is one row that changes.';

CREATE TABLE mesh_internal.report_audiences (
  report    bigint   NOT NULL REFERENCES mesh_internal.reports ON DELETE CASCADE,
  api_group text     NOT NULL,
  kind      text     NOT NULL,
  namespace text     NOT NULL,
  name      text     NOT NULL,
  everyone  boolean  NOT NULL,
  circles   bigint[] NOT NULL,
  PRIMARY KEY (name, namespace, kind, api_group, report)
);

CREATE INDEX report_audiences_of_report ON mesh_internal.report_audiences (report);

COMMENT ON TABLE mesh_internal.report_audiences IS 'Internal. Read mesh.resource_status.';
COMMENT ON COLUMN mesh_internal.report_audiences.circles IS 'Whom the resource concerns, unless it is everyone of the report. A resource without a row concerns nobody.';

CREATE TABLE mesh_internal.report_problems (
  report   bigint PRIMARY KEY REFERENCES mesh_internal.reports ON DELETE CASCADE,
  problems jsonb  NOT NULL
);

COMMENT ON TABLE mesh_internal.report_problems IS 'Internal. Read mesh.problems.';
COMMENT ON COLUMN mesh_internal.report_problems.problems IS 'A list of objects, all that the discovery found.';

CREATE TABLE mesh_internal.report_times (
  report  bigint   PRIMARY KEY REFERENCES mesh_internal.reports ON DELETE CASCADE,
  streams bigint[] NOT NULL,
  took    bigint[] NOT NULL
);

-- To compress them takes longer than to write them.
ALTER TABLE mesh_internal.report_times ALTER COLUMN streams SET STORAGE EXTERNAL, ALTER COLUMN took SET STORAGE EXTERNAL;

COMMENT ON TABLE mesh_internal.report_times IS 'Internal. Read mesh.proxies.';
COMMENT ON COLUMN mesh_internal.report_times.took IS 'How many microseconds the last change took of each stream: one row for all proxies.';

-- +goose Down
DROP TABLE mesh_internal.report_times;
DROP TABLE mesh_internal.report_problems;
DROP TABLE mesh_internal.report_audiences;
DROP TABLE mesh_internal.report_rollouts;
ALTER TABLE mesh_internal.reported_proxies DROP COLUMN circle, DROP COLUMN certificate_ends, DROP COLUMN refusals;
