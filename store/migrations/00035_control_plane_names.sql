-- The names that servers are dialled by, from their certificates: nobody is to claim them.

-- +goose Up
CREATE TABLE mesh.control_plane_names (
  host    text        PRIMARY KEY,
  member  text        NOT NULL,
  seen_at timestamptz NOT NULL DEFAULT now()
);

COMMENT ON TABLE mesh.control_plane_names IS 'Internal. The names that servers of the mesh are dialled by, as their certificates have them.';

-- +goose Down
DROP TABLE mesh.control_plane_names CASCADE;
