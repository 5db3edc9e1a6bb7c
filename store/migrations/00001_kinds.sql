-- What the programs know about kinds, as data: filled from their registry at the end of a migration.

-- +goose Up
CREATE TABLE mesh.kinds (
  api_group   text    NOT NULL,
  kind        text    NOT NULL,
  plural      text    NOT NULL,
  short_names text[]  NOT NULL,
  versions    text[]  NOT NULL,
  namespaced  boolean NOT NULL,
  PRIMARY KEY (kind, api_group)
);

COMMENT ON TABLE mesh.kinds IS 'The kinds of resources that can be stored. Maintained by migrations.';

CREATE TABLE mesh.installation (
  only_row        boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  registry_digest text   NOT NULL DEFAULT '',
  pruned_through  bigint NOT NULL DEFAULT 0
);

COMMENT ON COLUMN mesh.installation.registry_digest IS 'Which registry of kinds the tables were filled from.';

COMMENT ON COLUMN mesh.installation.pruned_through IS 'The last revision whose history is gone.';

INSERT INTO mesh.installation DEFAULT VALUES;

-- +goose Down
DROP TABLE mesh.installation;
DROP TABLE mesh.kinds;
