-- The table of types and fields that specs are made of, as data: filled from the programs' own at the end of a migration.

-- +goose Up
ALTER TABLE mesh.kinds ADD COLUMN type text; -- of the spec

COMMENT ON COLUMN mesh.kinds.type IS 'The type of the spec, in mesh.schema_types.';

CREATE TABLE mesh.schema_types (
  type     text  PRIMARY KEY,
  fields   text[] NOT NULL, -- the names, in order
  oneofs   jsonb NOT NULL   -- a list of lists of names of fields that exclude each other
);

CREATE TABLE mesh.schema_fields (
  type       text NOT NULL,
  position   int  NOT NULL,
  name       text NOT NULL,
  names      text[] NOT NULL, -- name and its aliases
  value_type text NOT NULL,
  ref        text, -- the type of a message
  shape      text NOT NULL CHECK (shape IN ('single', 'list', 'map')),
  key_type   text,
  required   boolean NOT NULL,
  min_items  int,
  max_items  int,
  enum       text[],
  numbers    int[],
  min        numeric,
  max        numeric,
  min_length int,
  max_length int,
  pattern    text,
  PRIMARY KEY (type, position)
);

COMMENT ON TABLE mesh.schema_fields IS 'The fields of each type, in order. For a list or map, value_type and everything from enum on is about each item.';

-- What the quick check of a spec needs to know of a member of an object, in one row. The specs themselves are members too, of the
-- type 'spec' and named after their own.
CREATE TABLE mesh.schema_members (
  type         text NOT NULL,
  name         text NOT NULL,
  alias        boolean NOT NULL,
  shape        text NOT NULL,
  items        jsonpath NOT NULL, -- of the member's value, those to which value_type applies
  value_type   text NOT NULL,
  min_items    int,
  max_items    int,
  allowed      jsonb,  -- the values of an enum
  min          numeric,
  max          numeric,
  min_length   int,
  max_length   int,
  pattern      text,
  ref          text,
  ref_required text[], -- of the type ref
  ref_conflict jsonpath, -- holds where fields of the type ref are set that exclude each other
  PRIMARY KEY (type, name)
);

-- +goose Down
DROP TABLE mesh.schema_members;
DROP TABLE mesh.schema_fields;
DROP TABLE mesh.schema_types;
ALTER TABLE mesh.kinds DROP COLUMN type;
