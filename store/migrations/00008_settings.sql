-- What operators set, for the whole mesh or a namespace.

-- +goose Up
CREATE TABLE mesh.settings (
  namespace  text        NOT NULL DEFAULT '',
  name       text        NOT NULL,
  value      text        NOT NULL,
  author     text        NOT NULL DEFAULT '',
  updated_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (name, namespace)
);

COMMENT ON TABLE  mesh.settings IS 'What was set, for the whole mesh or for a namespace. Delete a row to go back to the default. mesh.known_settings lists what can be set.';

COMMENT ON COLUMN mesh.settings.namespace IS 'Empty for the whole mesh. What a namespace sets for itself comes first there.';

COMMENT ON COLUMN mesh.settings.author IS 'Who wrote the row last. Filled in, like updated_at.';

-- +goose Down
DROP TABLE mesh.settings;
