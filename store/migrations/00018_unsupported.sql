-- What resources may say and discovery does not act on is told.

-- +goose Up
CREATE TABLE mesh.unsupported (
  api_group text     NOT NULL,
  kind      text     NOT NULL,
  steps     text[]   NOT NULL,
  found     jsonpath NOT NULL,
  condition jsonpath,
  reason    text     NOT NULL,
  hint      text
);

COMMENT ON TABLE mesh.unsupported IS 'What resources may say and discovery does not act on. Maintained by migrations.';
COMMENT ON COLUMN mesh.unsupported.steps IS 'The fields that lead to it from the spec on, through lists; * is every key of a map. Empty for a kind that is not read at all.';
COMMENT ON COLUMN mesh.unsupported.found IS 'Finds the fields in a spec, whatever their values.';
COMMENT ON COLUMN mesh.unsupported.condition IS 'A predicate that holds of the values that count; NULL where all do.';

-- +goose Down
DROP TABLE mesh.unsupported;
