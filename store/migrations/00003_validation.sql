-- The structure of specs is checked when they are written. A quick check passes what is sound; what it does not pass is
-- walked again by the rules of the programs (package kinds/schema), to the letter, which find the words for what is wrong, or
-- nothing after all.

-- +goose Up
CREATE TYPE mesh.problem AS (path text, reason text, hint text);

-- +goose Down
DROP TYPE mesh.problem;
