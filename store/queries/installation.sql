-- name: Differences
-- What somebody else than a migration has changed in the schema.
SELECT kind, name, difference, advice FROM mesh.check_installation()
