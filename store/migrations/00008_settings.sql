-- What operators set, for the whole mesh or a namespace.

-- +goose Up
SELECT 1;

-- +goose Down
SELECT 1;
