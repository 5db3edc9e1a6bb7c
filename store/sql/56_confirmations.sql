-- A change reverts by itself unless somebody confirms it in time.

-- in_words formats an interval for people: 1 hour 30 minutes.
CREATE OR REPLACE FUNCTION mesh_internal.in_words(span interval) RETURNS text LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT string_agg(format('%s %s%s', n, unit, CASE WHEN n <> 1 THEN 's' END), ' ' ORDER BY i)
  FROM (SELECT extract(epoch FROM span)::numeric) AS length (seconds), LATERAL (VALUES
      (1, 'day', floor(seconds / 86400)), (2, 'hour', floor(seconds / 3600) % 24), (3, 'minute', floor(seconds / 60) % 60),
      (4, 'second', floor(seconds) % 60), (5, 'millisecond', floor(seconds * 1000) % 1000)) units (i, unit, count), trim_scale(count) n
  WHERE n > 0
$$;

CREATE OR REPLACE FUNCTION mesh.commit_confirmed(within interval) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  t mesh_internal.transactions := mesh_internal.current_transaction();
BEGIN
  IF within IS NULL OR within <= interval '0' THEN
    RAISE invalid_parameter_value USING MESSAGE = 'the time in which a change is to be confirmed must be longer than nothing',
      HINT = 'write it as an interval, such as 5 minutes';
  ELSIF within > mesh.setting('confirmation_max_age')::interval THEN
    RAISE invalid_parameter_value USING
      MESSAGE = format('a change may wait %s to be confirmed at most, and not %s', mesh.setting('confirmation_max_age'), within),
      HINT = 'what waits keeps the history from being pruned; the owner of the mesh may set confirmation_max_age';
  END IF;
  IF t.xid IS NULL THEN
    INSERT INTO mesh_internal.transactions (id, confirm_within) VALUES (t.id, within);
  ELSE
    UPDATE mesh_internal.transactions SET confirm_within = within WHERE id = t.id;
    IF t.revision IS NOT NULL THEN -- in a session that checks its constraints early
      t.confirm_within := within;
      PERFORM mesh_internal.await_confirmation(t);
    END IF;
  END IF;
END $$;

COMMENT ON FUNCTION mesh.commit_confirmed IS 'Makes the change of the running transaction revert by itself unless mesh.confirm is called within that time after the commit. Can be called before or after the change; the last call counts.';

-- await_confirmation runs at commit, once the transaction has its number.
CREATE OR REPLACE FUNCTION mesh_internal.await_confirmation(t mesh_internal.transactions) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  deadline timestamptz := t.time + t.confirm_within;
BEGIN
  INSERT INTO mesh_internal.deadlines AS d (revision, within, deadline) VALUES (t.revision, t.confirm_within, deadline)
    ON CONFLICT (revision) DO UPDATE SET within = EXCLUDED.within, deadline = EXCLUDED.deadline;
  RAISE NOTICE 'revision % will be reverted at % unless it is confirmed', t.revision, date_trunc('second', deadline)
    USING HINT = format('SELECT mesh.confirm(%s)', t.revision);
END $$;

-- namespaces_of lists the namespaces that a revision changed.
CREATE OR REPLACE FUNCTION mesh_internal.namespaces_of(revision bigint) RETURNS text[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN ARRAY(SELECT DISTINCT c.namespace FROM mesh_internal.transactions t JOIN mesh_internal.changes c ON c.transaction_id = t.id WHERE t.revision = namespaces_of.revision);
END $$;

-- waiting lists the unconfirmed revisions that the acting role may confirm.
CREATE OR REPLACE FUNCTION mesh_internal.waiting() RETURNS bigint[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN ARRAY(SELECT d.revision FROM mesh_internal.deadlines d WHERE d.state = 'waiting'
    AND (mesh_internal.writes_all() OR mesh_internal.namespaces_of(d.revision) <@ mesh_internal.writable_namespaces()) ORDER BY d.revision);
END $$;

CREATE OR REPLACE FUNCTION mesh.confirm(revision bigint DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  waiting bigint[] := mesh_internal.waiting();
  d       mesh_internal.deadlines;
BEGIN
  IF revision IS NULL THEN
    IF cardinality(waiting) <> 1 THEN
      RAISE EXCEPTION USING ERRCODE = 'MS006', MESSAGE = format('%s revisions wait for a confirmation', coalesce(nullif(cardinality(waiting), 0)::text, 'no')),
        HINT = CASE WHEN waiting = '{}' THEN 'see mesh.confirmations for what has become of those that did'
          ELSE format('name the one you mean: %s', array_to_string(waiting, ', ')) END;
    END IF;
    revision := waiting[1];
  END IF;
  PERFORM mesh_internal.require_write(VARIADIC mesh_internal.namespaces_of(revision));
  UPDATE mesh_internal.deadlines SET state = 'confirmed', ended_at = clock_timestamp(), ended_by = mesh_internal.author()
    WHERE deadlines.revision = confirm.revision AND state = 'waiting' AND deadline > clock_timestamp();
  IF NOT FOUND THEN
    SELECT * INTO d FROM mesh_internal.deadlines WHERE deadlines.revision = confirm.revision;
    PERFORM mesh_internal.refuse_confirmation(confirm.revision, d, waiting);
  END IF;
  RETURN revision;
END $$;

COMMENT ON FUNCTION mesh.confirm IS 'Confirms a change that was committed with mesh.commit_confirmed. Without a revision it confirms the one that waits, if there is only one.';

-- refuse_confirmation raises why a revision cannot be confirmed. Confirming twice is fine.
CREATE OR REPLACE FUNCTION mesh_internal.refuse_confirmation(revision bigint, d mesh_internal.deadlines, waiting bigint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  reverted_by bigint := (SELECT t.revision FROM mesh_internal.transactions t WHERE t.id = d.reverted_in);
BEGIN
  IF d.state = 'confirmed' THEN
    RETURN;
  ELSIF d.state IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'MS006', MESSAGE = format('revision %s does not wait for a confirmation', revision),
      HINT = CASE WHEN waiting = '{}' THEN 'none does' ELSE format('these do: %s', array_to_string(waiting, ', ')) END;
  ELSIF d.state = 'waiting' THEN
    RAISE EXCEPTION USING ERRCODE = 'MS006', MESSAGE = format('revision %s was to be confirmed by %s, and is about to be reverted', revision, d.deadline),
      HINT = 'make the change again once it is';
  ELSIF reverted_by IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'MS006', MESSAGE = format('revision %s was to be confirmed by %s, and could not be reverted', revision, d.deadline),
      HINT = 'mesh.conflicts says why; what stands now stays';
  ELSE
    RAISE EXCEPTION USING ERRCODE = 'MS006', MESSAGE = format('revision %s was not confirmed by %s: revision %s has reverted it', revision, d.deadline, reverted_by),
      HINT = format('to have the change back, revert the revert: SELECT * FROM mesh.revert(%s)', reverted_by);
  END IF;
END $$;

-- A conflict ends when somebody changes the resource after whoever had changed it, or after the revert, if it
-- was for another reason.
CREATE OR REPLACE VIEW mesh.conflicts WITH (security_barrier) AS
  SELECT u.api_group, u.kind, u.namespace, u.name, u.revision, u.changed_by, u.reason
  FROM mesh_internal.unreverted u
  WHERE ((SELECT mesh_internal.sees_all()) OR u.namespace = ANY ((SELECT mesh_internal.readable_namespaces())::text[]))
    AND NOT EXISTS (
      SELECT FROM mesh_internal.changes c JOIN mesh_internal.transactions t ON t.id = c.transaction_id
      WHERE c.kind = u.kind AND c.api_group = u.api_group AND c.namespace = u.namespace AND c.name = u.name AND t.revision > coalesce(u.changed_by,
          (SELECT r.revision FROM mesh_internal.deadlines d JOIN mesh_internal.transactions r ON r.id = d.reverted_in WHERE d.revision = u.revision), u.revision));

COMMENT ON VIEW mesh.conflicts IS 'Resources that a revert left as they were, because somebody had changed them since. A row goes when somebody changes the resource again.';
COMMENT ON COLUMN mesh.conflicts.api_group IS 'The API group of the resource.';
COMMENT ON COLUMN mesh.conflicts.kind IS 'The kind of the resource.';
COMMENT ON COLUMN mesh.conflicts.namespace IS 'The namespace of the resource; empty for kinds without one.';
COMMENT ON COLUMN mesh.conflicts.name IS 'The name of the resource.';
COMMENT ON COLUMN mesh.conflicts.revision IS 'The revision that was not confirmed.';
COMMENT ON COLUMN mesh.conflicts.changed_by IS 'The revision that last changed the resource.';
COMMENT ON COLUMN mesh.conflicts.reason IS 'Why the resource was left as it was.';

CREATE OR REPLACE VIEW mesh.confirmations WITH (security_barrier) AS
  SELECT d.revision, t.author, t.message, d.state, d.deadline, d.within, d.ended_at, d.ended_by, r.revision AS reverted_by,
    (SELECT jsonb_agg(jsonb_build_object('kind', u.kind, 'namespace', u.namespace, 'name', u.name, 'changed_by', u.changed_by, 'reason', u.reason)
        ORDER BY u.kind, u.api_group, u.namespace, u.name)
      FROM mesh_internal.unreverted u
      WHERE u.revision = d.revision AND ((SELECT mesh_internal.sees_all()) OR u.namespace = ANY ((SELECT mesh_internal.readable_namespaces())::text[]))) AS conflicts
  FROM mesh_internal.deadlines d
    JOIN mesh_internal.transactions t ON t.revision = d.revision
    LEFT JOIN mesh_internal.transactions r ON r.id = d.reverted_in
  WHERE (SELECT mesh_internal.sees_all()) OR EXISTS (
    SELECT FROM mesh_internal.changes c WHERE c.transaction_id = t.id AND c.namespace = ANY ((SELECT mesh_internal.readable_namespaces())::text[]));

COMMENT ON VIEW mesh.confirmations IS 'The changes that were committed with mesh.commit_confirmed, and what became of each.';
COMMENT ON COLUMN mesh.confirmations.revision IS 'The revision that waits for its confirmation, or waited.';
COMMENT ON COLUMN mesh.confirmations.author IS 'Who made the change.';
COMMENT ON COLUMN mesh.confirmations.message IS 'The message of the change.';
COMMENT ON COLUMN mesh.confirmations.state IS 'waiting, confirmed, reverted, or conflict: not all of it could be reverted.';
COMMENT ON COLUMN mesh.confirmations.deadline IS 'When the change reverts unless somebody confirms it.';
COMMENT ON COLUMN mesh.confirmations.within IS 'How long the change was to wait.';
COMMENT ON COLUMN mesh.confirmations.ended_at IS 'When the change was confirmed or reverted; NULL while it waits.';
COMMENT ON COLUMN mesh.confirmations.ended_by IS 'Who confirmed or reverted it.';
COMMENT ON COLUMN mesh.confirmations.reverted_by IS 'The revision that reverted it.';
COMMENT ON COLUMN mesh.confirmations.conflicts IS 'What the revert left as it was, and why. mesh.conflicts has what is still so.';
