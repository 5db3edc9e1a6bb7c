-- Which role may read or write which namespace.

-- +goose Up
SELECT 1;

-- +goose Down
SELECT 1;
