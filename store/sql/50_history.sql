-- What was committed, for people to read.

CREATE OR REPLACE VIEW mesh.revisions AS
  SELECT revision, author, application, message, time, size
  FROM mesh.transactions
  WHERE revision IS NOT NULL;

COMMENT ON VIEW mesh.revisions IS 'One row a transaction that changed resources, in the order of their commits.';

CREATE OR REPLACE VIEW mesh.history AS
  SELECT t.revision, t.time, t.author, t.application, t.message,
    c.api_group, c.kind, c.namespace, c.name,
    CASE WHEN c.before_spec IS NULL THEN 'create' WHEN c.after_spec IS NULL THEN 'delete' ELSE 'update' END AS operation,
    CASE WHEN c.before_spec IS NOT NULL THEN
      jsonb_build_object('labels', c.before_labels, 'annotations', c.before_annotations, 'spec', c.before_spec) END AS before,
    CASE WHEN c.after_spec IS NOT NULL THEN
      jsonb_build_object('labels', c.after_labels, 'annotations', c.after_annotations, 'spec', c.after_spec) END AS after
  FROM mesh.transactions t JOIN mesh.changes c ON c.transaction_id = t.id
  WHERE t.revision IS NOT NULL;

COMMENT ON VIEW mesh.history IS 'Each resource that a revision changed, before and after it. Older revisions are pruned.';

-- prune forgets the history up to a revision, except for the newest revision, from which the next number is counted. The
-- resources themselves stay. It returns how many revisions went.
CREATE OR REPLACE FUNCTION mesh.prune(through bigint) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  newest bigint := (SELECT max(revision) FROM mesh.transactions);
  pruned bigint;
BEGIN
  through := least(through, newest - 1);
  UPDATE mesh.installation SET pruned_through = through WHERE through > pruned_through;
  DELETE FROM mesh.changes c USING mesh.transactions t WHERE t.revision <= through AND c.transaction_id = t.id;
  DELETE FROM mesh.transactions WHERE revision <= through;
  GET DIAGNOSTICS pruned = ROW_COUNT;
  RETURN pruned;
END $$;
