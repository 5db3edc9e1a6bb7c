-- Limits of namespaces are settings that those may not set whom they limit.

-- +goose Up
DROP FUNCTION IF EXISTS mesh.known_setting(text);

-- +goose Down
SELECT 1;
