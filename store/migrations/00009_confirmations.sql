-- Changes that revert by themselves unless they are confirmed in time.

-- +goose Up
SELECT 1;

-- +goose Down
SELECT 1;
