-- What programs find wrong with resources that the database cannot judge.

-- +goose Up
CREATE TABLE mesh.findings (
  source    text   NOT NULL,
  api_group text   NOT NULL,
  kind      text   NOT NULL,
  namespace text   NOT NULL,
  name      text   NOT NULL,
  revision  bigint NOT NULL,
  severity  text   NOT NULL CHECK (severity IN ('error', 'warning', 'info')),
  code      text   NOT NULL,
  path      text   NOT NULL,
  message   text   NOT NULL,
  hint      text,
  PRIMARY KEY (name, namespace, kind, api_group, source, code, path, message)
);

COMMENT ON TABLE mesh.findings IS 'Internal. Read mesh.problems.';
COMMENT ON COLUMN mesh.findings.source IS 'Which examination it is of: each replaces its own findings.';
COMMENT ON COLUMN mesh.findings.revision IS 'That of the resource which was examined. What was found of an older one counts no more.';

-- +goose Down
DROP TABLE mesh.findings;
