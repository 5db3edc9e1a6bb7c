-- The quick check asks a predicate of each object, not a row of each member.

-- +goose Up
DROP FUNCTION IF EXISTS mesh.derive_schema_members();
DROP TABLE mesh.schema_members;

ALTER TABLE mesh.schema_types
  ADD COLUMN own_values  jsonpath, -- holds of objects in which no field is wrong of those that are not made of objects
  ADD COLUMN own_parts   jsonpath, -- holds of objects whose parts are where they should be, whatever is in them, and that have no fault like those of broken
  ADD COLUMN parts       text[] NOT NULL DEFAULT '{}', -- the fields that are made of objects
  ADD COLUMN part_types  text[] NOT NULL DEFAULT '{}',
  ADD COLUMN part_shapes text[] NOT NULL DEFAULT '{}',
  -- To unpack what is asked all the time would cost more than to ask it.
  ALTER COLUMN own_values SET STORAGE MAIN,
  ALTER COLUMN own_parts SET STORAGE MAIN,
  SET (toast_tuple_target = 8160);

CREATE TABLE mesh.schema_parts (
  type text     NOT NULL,
  path jsonpath NOT NULL,
  part text     NOT NULL
);
CREATE INDEX schema_parts_by_type ON mesh.schema_parts (type);

COMMENT ON TABLE mesh.schema_parts IS 'Where objects are below an object of a type, and of which types. Maintained by migrations.';
COMMENT ON COLUMN mesh.schema_types.broken IS 'Holds where a required field is missing, fields are set that exclude each other, or a rule of the type is broken of those that one predicate can tell.';

-- +goose Down
DROP TABLE mesh.schema_parts;
CREATE TABLE mesh.schema_members (
  type         text NOT NULL,
  name         text NOT NULL,
  alias        boolean NOT NULL,
  shape        text NOT NULL,
  items        jsonpath NOT NULL,
  value_type   text NOT NULL,
  min_items    int,
  max_items    int,
  allowed      jsonb,
  min          numeric,
  max          numeric,
  min_length   int,
  max_length   int,
  pattern      text,
  ref          text,
  ref_required text[],
  ref_conflict jsonpath,
  shortest     numeric,
  longest      numeric,
  unit         numeric,
  syntax       text,
  syntax_not   text,
  syntax_long  text,
  syntax_max   int,
  format       text,
  key_format   text,
  key_syntax   text,
  ref_tested   jsonpath,
  PRIMARY KEY (type, name)
);
ALTER TABLE mesh.schema_types DROP COLUMN own_values, DROP COLUMN own_parts, DROP COLUMN parts, DROP COLUMN part_types, DROP COLUMN part_shapes, RESET (toast_tuple_target);
