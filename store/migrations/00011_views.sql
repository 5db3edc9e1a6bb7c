-- What the updatable views need to know of themselves, as data: filled from the registry of kinds at the end of a migration.

-- +goose Up
CREATE TABLE mesh.editable_views (
  view      text PRIMARY KEY,
  api_group text   NOT NULL,
  kind      text   NOT NULL,
  parent    text   NOT NULL, -- the column that names the resource
  list      text[] NOT NULL, -- where in the spec the rows are; {x} stands for the value of column x. Empty where a row is a resource.
  identity  text[] NOT NULL, -- the columns by which a part is found again that somebody else has changed
  source    text   NOT NULL, -- what the view selects from
  summary   text   NOT NULL
);

COMMENT ON TABLE mesh.editable_views IS 'Internal. The views that can be written to, and what they show.';

CREATE TABLE mesh.editable_columns (
  view       text NOT NULL,
  position   int  NOT NULL,
  name       text NOT NULL,
  type       text NOT NULL,
  expression text NOT NULL, -- of the view
  path       text[], -- the field in the spec of the resource or part; NULL if the column is none
  alias      text,   -- the other spelling of the last name in the path
  summary    text NOT NULL,
  PRIMARY KEY (view, name)
);

COMMENT ON TABLE mesh.editable_columns IS 'Internal. The columns of the views that can be written to.';

-- What a running statement does to parts of resources, until its end. Nobody sees a row but who is about to delete it.
CREATE UNLOGGED TABLE mesh.part_edits (
  xid       xid8   NOT NULL DEFAULT pg_current_xact_id(),
  id        bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
  view      text   NOT NULL,
  namespace text   NOT NULL,
  parent    text   NOT NULL,
  list      text[] NOT NULL,
  position  int, -- NULL for what is inserted at the end
  operation text   NOT NULL CHECK (operation IN ('change', 'move', 'remove', 'insert')),
  was       jsonb, -- the row of the view
  wanted    jsonb,
  PRIMARY KEY (xid, id)
) WITH (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);

COMMENT ON TABLE mesh.part_edits IS 'Internal, and empty between statements.';

ALTER TABLE mesh.installation ADD COLUMN views_digest text NOT NULL DEFAULT '';

COMMENT ON COLUMN mesh.installation.views_digest IS 'From which registry and code the updatable views were made.';

-- +goose Down
ALTER TABLE mesh.installation DROP COLUMN views_digest;
DROP TABLE mesh.part_edits;
DROP TABLE mesh.editable_columns;
DROP TABLE mesh.editable_views;
