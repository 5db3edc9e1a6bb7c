-- The rules that go beyond types and fields, as data: filled from the programs' own at the end of a migration.

-- +goose Up
ALTER TABLE mesh.installation ADD COLUMN code_digest text NOT NULL DEFAULT '';
COMMENT ON COLUMN mesh.installation.code_digest IS 'Which functions, views and triggers were installed.';

-- +goose Down
ALTER TABLE mesh.installation DROP COLUMN code_digest;
