-- A resource bears the transaction that changed it last, which is known when it is written, and not the number of that, which is only
-- known at commit: so no row is written twice.

-- +goose Up
-- They take other arguments now, or are gone.
DROP FUNCTION IF EXISTS mesh.is_sound(text[], jsonb[], jsonb[], jsonb[]), mesh.expect_number(mesh.transactions),
  mesh.write_number(mesh.transactions), mesh.write_number_isolated(mesh.transactions), mesh.forget_undone(mesh.transactions);
DROP TRIGGER IF EXISTS keep_hands_off ON mesh.resources;
DROP FUNCTION IF EXISTS mesh.keep_hands_off();

ALTER TABLE mesh.resources ADD COLUMN xid xid8;

COMMENT ON COLUMN mesh.resources.xid IS 'The transaction that changed the resource last, together with updated_at. The views show its revision.';

COMMENT ON COLUMN mesh.resources.generation IS 'How often the spec has changed. Set by itself, like the columns after it.';

-- Transactions that were pruned are needed again, for the number of their revision. These writes are no changes of resources.
ALTER TABLE mesh.resources DISABLE TRIGGER USER;
-- +goose StatementBegin
DO $$
BEGIN
  INSERT INTO mesh.transactions (xid, begun_at, revision, pending, time)
    SELECT r.revision::text::xid8, max(r.updated_at), r.revision, false, max(r.updated_at)
    FROM mesh.resources r
    WHERE r.revision > 0 AND NOT EXISTS (SELECT FROM mesh.transactions t WHERE t.revision = r.revision) GROUP BY r.revision;
  UPDATE mesh.resources r SET xid = t.xid, updated_at = t.begun_at FROM mesh.transactions t WHERE t.revision = r.revision;
  IF to_regclass('mesh.readable_resources') IS NOT NULL THEN
    CREATE OR REPLACE VIEW mesh.readable_resources WITH (security_barrier) AS
      SELECT api_group, kind, namespace, name, spec, labels, annotations,
        (SELECT t.revision FROM mesh.transactions t WHERE t.xid = r.xid AND t.begun_at = r.updated_at) AS revision, generation, created_at, updated_at
      FROM mesh.resources r
      WHERE (SELECT mesh.sees_all()) OR namespace = ANY ((SELECT mesh.readable_namespaces())::text[]);
  END IF;
END $$;
-- +goose StatementEnd

ALTER TABLE mesh.resources ENABLE TRIGGER USER;

ALTER TABLE mesh.resources DROP COLUMN revision;

-- +goose Down
ALTER TABLE mesh.resources ADD COLUMN revision bigint NOT NULL DEFAULT 0;
ALTER TABLE mesh.resources DISABLE TRIGGER USER;
UPDATE mesh.resources r SET revision = t.revision FROM mesh.transactions t WHERE t.xid = r.xid AND t.begun_at = r.updated_at;
ALTER TABLE mesh.resources ENABLE TRIGGER USER;
ALTER TABLE mesh.resources DROP COLUMN xid;
