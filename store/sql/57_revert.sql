-- Taking one revision back, as a new revision. Spec, labels and annotations are looked at apart: what
-- the revision has changed goes back, and what others have changed beside it stays. A resource stays as
-- it is where the same was changed since, unless that is again as the revision left it.

-- change_before_unconfirmed skips changes that were not confirmed in time and could not be reverted
-- then, because this one was made on top of them. Reverting it must not bring them back.
CREATE OR REPLACE FUNCTION mesh_internal.change_before_unconfirmed(c mesh_internal.changes) RETURNS mesh_internal.changes
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  earlier mesh_internal.changes;
BEGIN
  LOOP
    SELECT e.* INTO earlier FROM mesh_internal.deadlines d JOIN mesh_internal.transactions t ON t.revision = d.revision JOIN mesh_internal.changes e ON e.transaction_id = t.id
      WHERE d.revision = c.before_revision AND d.state = 'conflict'
        AND e.kind = c.kind AND e.api_group = c.api_group AND e.namespace = c.namespace AND e.name = c.name;
    IF NOT FOUND THEN
      RETURN c;
    END IF;
    c := earlier;
  END LOOP;
END $$;

-- last_change_after returns who last changed some parts of a resource after a revision; NULL if it is
-- the running transaction, which has no revision and comes last.
DROP FUNCTION IF EXISTS mesh_internal.last_change_after(mesh_internal.changes, bigint); -- of earlier programs
CREATE OR REPLACE FUNCTION mesh_internal.last_change_after(c mesh_internal.changes, revision bigint, parts text[]) RETURNS bigint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN (SELECT t.revision FROM mesh_internal.changes l JOIN mesh_internal.transactions t ON t.id = l.transaction_id
    WHERE l.kind = c.kind AND l.api_group = c.api_group AND l.namespace = c.namespace AND l.name = c.name
      AND (t.revision > last_change_after.revision OR t.revision IS NULL)
      AND ('spec' = ANY (parts) AND l.before_spec IS DISTINCT FROM l.after_spec OR 'labels' = ANY (parts) AND l.before_labels IS DISTINCT FROM l.after_labels
        OR 'annotations' = ANY (parts) AND l.before_annotations IS DISTINCT FROM l.after_annotations)
    ORDER BY t.revision DESC NULLS FIRST LIMIT 1);
END $$;

-- in_the_way lists the parts of a resource that a revision has changed and others have changed since,
-- so that they are neither as before nor as it left them. If it has made or deleted the resource, that is
-- about all of it; and one that others have made anew since is theirs, whatever it says.
CREATE OR REPLACE FUNCTION mesh_internal.in_the_way(c mesh_internal.changes, before mesh_internal.changes, now mesh.resources) RETURNS text[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF c.before_spec IS NULL AND now.created_at > (SELECT t.begun_at FROM mesh_internal.transactions t WHERE t.id = c.transaction_id) THEN
    RETURN '{spec,labels,annotations}';
  END IF;
  IF before.before_spec IS NULL OR c.after_spec IS NULL OR now.spec IS NULL THEN
    RETURN CASE WHEN (now.spec, now.labels, now.annotations) IS NOT DISTINCT FROM (c.after_spec, c.after_labels, c.after_annotations) THEN '{}' ELSE '{spec,labels,annotations}'::text[] END;
  END IF;
  RETURN array_remove(ARRAY[
    CASE WHEN c.after_spec <> before.before_spec AND now.spec NOT IN (c.after_spec, before.before_spec) THEN 'spec' END,
    CASE WHEN c.after_labels <> before.before_labels AND now.labels NOT IN (c.after_labels, before.before_labels) THEN 'labels' END,
    CASE WHEN c.after_annotations <> before.before_annotations AND now.annotations NOT IN (c.after_annotations, before.before_annotations) THEN 'annotations' END], NULL);
END $$;

-- undo takes a revision back and returns what became of each resource: reverted, unchanged because
-- it is already as it was, conflict, or unknown_kind. Rows are locked before they are read. The entries
-- of machines follow by themselves.
CREATE OR REPLACE FUNCTION mesh_internal.undo(revision bigint) RETURNS TABLE (
  outcome text, api_group text, kind text, namespace text, name text, changed_by bigint)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  undone bigint := (SELECT t.id FROM mesh_internal.transactions t WHERE t.revision = undo.revision);
BEGIN
  PERFORM FROM mesh_internal.changes c JOIN mesh.resources r ON r.kind = c.kind AND r.api_group = c.api_group AND r.namespace = c.namespace AND r.name = c.name
    WHERE c.transaction_id = undone ORDER BY r.kind, r.api_group, r.namespace, r.name FOR UPDATE OF r;
  RETURN QUERY
    WITH plan AS MATERIALIZED (
      SELECT c.kind, c.api_group, c.namespace, c.name, wanted.*, CASE WHEN w.parts <> '{}' OR o.outcome = 'unchanged' THEN
          mesh_internal.last_change_after(c, undo.revision, CASE o.outcome WHEN 'unchanged' THEN '{spec,labels,annotations}' ELSE w.parts END) END AS changed_by, o.outcome
      FROM mesh_internal.changes c CROSS JOIN mesh_internal.change_before_unconfirmed(c) b
        LEFT JOIN mesh.resources r ON r.kind = c.kind AND r.api_group = c.api_group AND r.namespace = c.namespace AND r.name = c.name
        CROSS JOIN mesh_internal.in_the_way(c, b, r) AS w (parts)
        CROSS JOIN LATERAL (SELECT b.before_spec IS NOT NULL AND c.after_spec IS NOT NULL AND r.spec IS NOT NULL AS apart) p
        CROSS JOIN LATERAL (SELECT -- what the revision did not change stays
          CASE WHEN p.apart AND c.after_spec = b.before_spec THEN r.spec ELSE b.before_spec END AS before_spec,
          CASE WHEN p.apart AND c.after_labels = b.before_labels THEN r.labels ELSE b.before_labels END AS before_labels,
          CASE WHEN p.apart AND c.after_annotations = b.before_annotations THEN r.annotations ELSE b.before_annotations END AS before_annotations) wanted
        CROSS JOIN LATERAL (SELECT CASE
          WHEN (r.spec, r.labels, r.annotations) IS NOT DISTINCT FROM (wanted.before_spec, wanted.before_labels, wanted.before_annotations) THEN 'unchanged'
          WHEN w.parts <> '{}' THEN 'conflict'
          WHEN r.kind IS NULL AND NOT mesh_internal.is_known(c.kind, c.api_group) THEN 'unknown_kind' ELSE 'reverted' END AS outcome) o
      WHERE c.transaction_id = undone AND NOT (mesh_internal.is_of_machine(c.kind, c.before_annotations) OR mesh_internal.is_of_machine(c.kind, c.after_annotations))
    ), removed AS (
      DELETE FROM mesh.resources r USING plan p
      WHERE p.outcome = 'reverted' AND p.before_spec IS NULL AND r.kind = p.kind AND r.api_group = p.api_group AND r.namespace = p.namespace AND r.name = p.name
      RETURNING r.kind, r.api_group, r.namespace, r.name
    ), updated AS (
      UPDATE mesh.resources r SET spec = p.before_spec, labels = p.before_labels, annotations = p.before_annotations FROM plan p
      WHERE p.outcome = 'reverted' AND p.before_spec IS NOT NULL AND r.kind = p.kind AND r.api_group = p.api_group AND r.namespace = p.namespace AND r.name = p.name
      RETURNING r.kind, r.api_group, r.namespace, r.name
    ), created AS ( -- unless somebody has done so this very moment
      INSERT INTO mesh.resources (kind, api_group, namespace, name, spec, labels, annotations)
      SELECT p.kind, p.api_group, p.namespace, p.name, p.before_spec, p.before_labels, p.before_annotations
      FROM plan p LEFT JOIN mesh.resources r ON r.kind = p.kind AND r.api_group = p.api_group AND r.namespace = p.namespace AND r.name = p.name
      WHERE p.outcome = 'reverted' AND p.before_spec IS NOT NULL AND r.kind IS NULL
      ON CONFLICT (kind, api_group, namespace, name) DO NOTHING
      RETURNING kind, api_group, namespace, name
    ), done AS (
      SELECT * FROM removed UNION ALL SELECT * FROM updated UNION ALL SELECT * FROM created
    )
    SELECT CASE WHEN p.outcome = 'reverted' AND NOT EXISTS (
        SELECT FROM done d WHERE d.kind = p.kind AND d.api_group = p.api_group AND d.namespace = p.namespace AND d.name = p.name) THEN 'conflict' ELSE p.outcome END,
      p.api_group, p.kind, p.namespace, p.name, p.changed_by
    FROM plan p ORDER BY p.kind, p.api_group, p.namespace, p.name;
END $$;

-- take_back undoes a revision and, if that waits for a confirmation, records the result.
CREATE OR REPLACE FUNCTION mesh_internal.take_back(revision bigint) RETURNS TABLE (
  outcome text, api_group text, kind text, namespace text, name text, changed_by bigint)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  waits     boolean := EXISTS (SELECT FROM mesh_internal.deadlines d WHERE d.revision = take_back.revision AND d.state = 'waiting');
  conflicts int := 0;
BEGIN
  FOR outcome, api_group, kind, namespace, name, changed_by IN SELECT * FROM mesh_internal.undo(take_back.revision) LOOP
    IF waits AND outcome IN ('conflict', 'unknown_kind') THEN
      INSERT INTO mesh_internal.unreverted VALUES (take_back.revision, take_back.kind, take_back.api_group, take_back.namespace, take_back.name, take_back.changed_by,
        CASE outcome WHEN 'unknown_kind' THEN 'no program knows its kind any more' ELSE coalesce('revision ' || take_back.changed_by || ' has changed it since', 'it was being changed') END);
      conflicts := conflicts + 1;
    END IF;
    RETURN NEXT;
  END LOOP;
  UPDATE mesh_internal.deadlines d SET state = CASE conflicts WHEN 0 THEN 'reverted' ELSE 'conflict' END, ended_at = clock_timestamp(), ended_by = mesh_internal.author(),
      reverted_in = (SELECT t.id FROM mesh_internal.running_transaction t)
    WHERE d.revision = take_back.revision AND waits;
END $$;

DROP FUNCTION IF EXISTS mesh.revert(bigint); -- of earlier programs
CREATE OR REPLACE FUNCTION mesh.revert(revision bigint, whole boolean DEFAULT false) RETURNS TABLE (
  outcome text, api_group text, kind text, namespace text, name text, changed_by bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  d         mesh_internal.deadlines;
  conflicts text[] := '{}';
BEGIN
  PERFORM mesh_internal.require_moment('revision', revert.revision::text), mesh_internal.known_revision(revert.revision);
  IF revert.revision < mesh.oldest_revision() THEN
    RAISE EXCEPTION USING ERRCODE = 'MS004', MESSAGE = format('the history of revision %s is gone', revert.revision),
      HINT = format('the oldest revision that can be reverted is %s', mesh.oldest_revision());
  END IF;
  PERFORM mesh_internal.require_write(VARIADIC mesh_internal.namespaces_of(revert.revision));
  SELECT * INTO d FROM mesh_internal.deadlines WHERE deadlines.revision = revert.revision FOR UPDATE;
  IF d.state IN ('reverted', 'conflict') THEN
    RAISE EXCEPTION USING ERRCODE = 'MS006', MESSAGE = format('revision %s was reverted already', revert.revision),
      HINT = 'mesh.confirmations says by which revision, and mesh.conflicts what was left as it is';
  END IF;
  PERFORM mesh_internal.name_unnamed(format('revert of revision %s', revert.revision));
  IF (SELECT t.secrets FROM mesh_internal.transactions t WHERE t.revision = revert.revision) THEN
    RAISE NOTICE 'the secrets that revision % has changed stay as they are, for what they were is not kept', revert.revision;
  END IF;
  FOR outcome, api_group, kind, namespace, name, changed_by IN SELECT * FROM mesh_internal.take_back(revert.revision) LOOP
    IF outcome IN ('conflict', 'unknown_kind') THEN
      conflicts := conflicts || format('%s %s %s', kind, concat_ws('/', nullif(namespace, ''), name),
        CASE outcome WHEN 'unknown_kind' THEN format('is of a kind of %s that no program knows any more', api_group)
          ELSE coalesce('was changed by revision ' || changed_by, 'was changed by a transaction without a revision yet') END);
    END IF;
    RETURN NEXT;
  END LOOP;
  IF whole AND cardinality(conflicts) > 0 THEN
    RAISE EXCEPTION USING ERRCODE = 'MS006',
      MESSAGE = format('revision %s cannot be taken back whole: %s', revert.revision, array_to_string(conflicts[:5], ', '))
        || CASE WHEN cardinality(conflicts) > 5 THEN format(', and %s more', cardinality(conflicts) - 5) ELSE '' END,
      HINT = 'nothing was taken back; without whole => true the others are, and these are left as they are, to be changed by hand';
  END IF;
END $$;

COMMENT ON FUNCTION mesh.revert IS 'Takes one revision back, as a new revision, and returns what became of each of its resources: reverted; unchanged, because it is already as it was; conflict, because changed_by has changed the same since: its spec, its labels or its annotations; or unknown_kind, because it would have to be made again and no program knows its kind any more. With whole => true the last two are an error, and nothing is taken back.';

-- leave_unreverted records that the current rules do not let a revision be taken back.
CREATE OR REPLACE FUNCTION mesh_internal.leave_unreverted(revision bigint, reason text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  INSERT INTO mesh_internal.unreverted
    SELECT leave_unreverted.revision, c.kind, c.api_group, c.namespace, c.name, coalesce(mesh_internal.last_change_after(c, t.revision, '{spec,labels,annotations}'), t.revision), reason
    FROM mesh_internal.transactions t JOIN mesh_internal.changes c ON c.transaction_id = t.id WHERE t.revision = leave_unreverted.revision;
  UPDATE mesh_internal.deadlines d SET state = 'conflict', ended_at = clock_timestamp(), ended_by = mesh_internal.author() WHERE d.revision = leave_unreverted.revision;
END $$;

-- revert_overdue takes back one revision that was not confirmed in time, if there is one; call it
-- until there is none. Any number of servers may call it at once: a lock on the row decides which
-- of them reverts it, in one transaction.
CREATE OR REPLACE FUNCTION mesh.revert_overdue(OUT revision bigint, OUT state text, OUT reverted_by bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  d mesh_internal.deadlines;
BEGIN
  SELECT * INTO d FROM mesh_internal.deadlines w WHERE w.state = 'waiting' AND w.deadline <= clock_timestamp()
    ORDER BY w.deadline LIMIT 1 FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  PERFORM set_config('mesh.author', 'mesh.commit_confirmed', true),
    set_config('mesh.message', format('revert of revision %s: not confirmed within %s', d.revision, mesh_internal.in_words(d.within)), true);
  BEGIN
    PERFORM mesh_internal.take_back(d.revision);
    SET CONSTRAINTS mesh_internal.number_transaction IMMEDIATE; -- what is refused at commit is refused here
  EXCEPTION WHEN OTHERS THEN
    IF SQLSTATE NOT LIKE 'MS%' AND SQLSTATE NOT IN ('23503', '23514') THEN
      RAISE;
    END IF;
    PERFORM mesh_internal.leave_unreverted(d.revision, SQLERRM);
  END;
  SELECT e.revision, e.state, t.revision INTO revert_overdue.revision, revert_overdue.state, reverted_by
    FROM mesh_internal.deadlines e LEFT JOIN mesh_internal.transactions t ON t.id = e.reverted_in WHERE e.revision = d.revision;
END $$;

COMMENT ON FUNCTION mesh.revert_overdue IS 'Reverts one change that was not confirmed in time. Every mcp-server calls it when one is due.';
