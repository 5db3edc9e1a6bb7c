-- What the updatable views need to know of their columns.

-- +goose Up
SELECT 1;

-- +goose Down
SELECT 1;
