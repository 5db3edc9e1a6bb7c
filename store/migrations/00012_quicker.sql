-- Functions that take other arguments now.

-- +goose Up
DROP FUNCTION IF EXISTS mesh.is_sound(text[], jsonb[], jsonb[], jsonb[]), mesh.expect_number(mesh.transactions),
  mesh.write_number(mesh.transactions), mesh.write_number_isolated(mesh.transactions), mesh.forget_undone(mesh.transactions);

-- +goose Down
SELECT 1;
