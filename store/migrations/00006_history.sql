-- This made the first views. Views and functions are code now: see store/sql.

-- +goose Up
SELECT 1;

-- +goose Down
SELECT 1;
