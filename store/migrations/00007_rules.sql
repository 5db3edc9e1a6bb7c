-- The rules that go beyond types and fields, as data: filled from the programs' own at the end of a migration.

-- +goose Up
-- They take other arguments now.
DROP FUNCTION IF EXISTS mesh.is_sound(text[], jsonb[], jsonb[]), mesh.check_duration(jsonb);

ALTER TABLE mesh.installation ADD COLUMN code_digest text NOT NULL DEFAULT '';
COMMENT ON COLUMN mesh.installation.code_digest IS 'Which functions, views and triggers were installed.';

-- The functions that write what is set at commit know each other by it.
ALTER TABLE mesh.installation ADD COLUMN secret uuid NOT NULL DEFAULT gen_random_uuid();
ALTER TABLE mesh.transactions DROP COLUMN numbering;

CREATE TABLE mesh.formats (
  name     text PRIMARY KEY,
  pattern  text,
  unlike   text, -- a pattern that must not match
  long     text, -- another, of which only strings of more than 63 characters are asked
  max      int,  -- characters
  function text, -- a test that no pattern can express
  other    text, -- a format that will also do
  reason   text NOT NULL,
  hint     text
);

COMMENT ON TABLE mesh.formats IS 'The syntaxes that strings must have, where mesh.schema_fields names one. Maintained by migrations.';

CREATE TABLE mesh.rules (
  type     text NOT NULL,
  position int  NOT NULL,
  each     text NOT NULL,
  applies  jsonpath,
  steps    jsonb NOT NULL, -- each, as a list of fields and their shapes
  wrong    jsonpath,
  differs  text,
  test     text,
  quick    boolean NOT NULL,
  at       text NOT NULL,
  reason   text NOT NULL,
  hint     text,
  PRIMARY KEY (type, position)
);

COMMENT ON TABLE  mesh.rules IS 'What must not be the case in an object of a type, beyond what mesh.schema_fields says of its fields. Maintained by migrations.';
COMMENT ON COLUMN mesh.rules.type IS 'The type, as mesh.kinds and mesh.schema_fields name it.';
COMMENT ON COLUMN mesh.rules.each IS 'The rule is about each item of this list, or of these lists in lists. Empty: about the object.';
COMMENT ON COLUMN mesh.rules.applies IS 'The rule is about objects alone of which this holds.';
COMMENT ON COLUMN mesh.rules.wrong IS 'Holds of an object that breaks the rule.';
COMMENT ON COLUMN mesh.rules.differs IS 'The member that must differ from item to item; empty for the items themselves.';
COMMENT ON COLUMN mesh.rules.test IS 'A function that finds what breaks the rule.';
COMMENT ON COLUMN mesh.rules.quick IS 'Whether the quick check asks this rule in one predicate with others.';
COMMENT ON COLUMN mesh.rules.at IS 'The path that is reported, from the object or the item on.';

ALTER TABLE mesh.kinds ADD COLUMN rules int NOT NULL DEFAULT 0;
COMMENT ON COLUMN mesh.kinds.rules IS 'Tells the rules in force from earlier ones.';

ALTER TABLE mesh.schema_types
  ADD COLUMN broken jsonpath, -- holds where a rule of the type is broken, of those that one predicate can tell
  ADD COLUMN tested jsonpath; -- holds where the other rules of the type have to be looked at

ALTER TABLE mesh.schema_fields
  ADD COLUMN min_duration text,
  ADD COLUMN max_duration text,
  ADD COLUMN precision    text, -- a duration is a multiple of it
  ADD COLUMN format       text,
  ADD COLUMN key_format   text; -- of the keys of a map

ALTER TABLE mesh.schema_members
  ADD COLUMN shortest   numeric, -- nanoseconds of a duration
  ADD COLUMN longest    numeric,
  ADD COLUMN unit       numeric, -- a duration is a multiple of it
  ADD COLUMN syntax     text,    -- the pattern of the format
  ADD COLUMN syntax_not text,    -- what it must not be like
  ADD COLUMN syntax_long text,
  ADD COLUMN syntax_max int,     -- its greatest length
  ADD COLUMN format     text,    -- its name, if these are not all
  ADD COLUMN key_format text,    -- of the keys of a map
  ADD COLUMN key_syntax text,    -- what a key of this syntax and fewer than 64 characters need not be asked
  ADD COLUMN ref_tested jsonpath; -- of the type ref

ALTER TABLE mesh.resources ADD COLUMN rules int NOT NULL DEFAULT 0;
COMMENT ON COLUMN mesh.resources.rules IS 'The rules that the resource was last found to keep; others than those of mesh.kinds if it was not checked since they changed.';
CREATE INDEX resources_by_rules ON mesh.resources (rules);

-- +goose Down
ALTER TABLE mesh.resources DROP COLUMN rules;
ALTER TABLE mesh.schema_members DROP COLUMN shortest, DROP COLUMN longest, DROP COLUMN unit, DROP COLUMN syntax, DROP COLUMN syntax_not, DROP COLUMN syntax_long, DROP COLUMN syntax_max,
  DROP COLUMN format, DROP COLUMN key_format, DROP COLUMN key_syntax, DROP COLUMN ref_tested;
ALTER TABLE mesh.schema_fields DROP COLUMN min_duration, DROP COLUMN max_duration, DROP COLUMN precision, DROP COLUMN format, DROP COLUMN key_format;
ALTER TABLE mesh.schema_types DROP COLUMN broken, DROP COLUMN tested;
ALTER TABLE mesh.kinds DROP COLUMN rules;
DROP TABLE mesh.rules;
DROP TABLE mesh.formats;
ALTER TABLE mesh.transactions ADD COLUMN numbering boolean NOT NULL DEFAULT false;
ALTER TABLE mesh.installation DROP COLUMN secret;
ALTER TABLE mesh.installation DROP COLUMN code_digest;
