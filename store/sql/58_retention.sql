-- The history is kept for some time, or for so many revisions. What is older is pruned in small
-- batches, one per transaction.

-- prune deletes the oldest revisions up to one, but keeps the newest, from which the next number
-- follows, and those that may yet have to be reverted. A batch ends with the revision that exceeds
-- its number of changes.
CREATE OR REPLACE FUNCTION mesh.prune(through bigint, at_most bigint DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  before bigint;
  batch  record;
  borne  bigint[]; -- the transactions that a resource bears still: they stay, for their number
BEGIN
  IF NOT mesh_internal.speaks_for_others() THEN
    PERFORM mesh_internal.require_owner('prune the history');
  END IF;
  PERFORM mesh_internal.require_moment('revision', through::text);
  SELECT pruned_through INTO before FROM mesh_internal.installation FOR UPDATE; -- one at a time
  through := least(through, mesh.newest_revision() - 1, (SELECT min(revision) - 1 FROM mesh_internal.deadlines WHERE state = 'waiting'));
  SELECT array_agg(id) AS ids, max(revision) AS last, max(time) AS time INTO batch FROM (
      SELECT t.id, t.revision, t.time, sum(t.size) OVER (ORDER BY t.revision) - t.size AS changes_before
      FROM (SELECT * FROM mesh_internal.transactions WHERE revision > before AND revision <= through ORDER BY revision LIMIT at_most) t) oldest
    WHERE at_most IS NULL OR changes_before < at_most;
  IF batch.ids IS NULL THEN
    RETURN 0;
  END IF;
  borne := ARRAY(SELECT t.id FROM mesh_internal.transactions t WHERE t.id = ANY (batch.ids) AND EXISTS (
    SELECT FROM mesh_internal.changes c JOIN mesh.resources r ON r.kind = c.kind AND r.api_group = c.api_group AND r.namespace = c.namespace AND r.name = c.name
    WHERE c.transaction_id = t.id AND r.xid = t.xid AND r.updated_at = t.begun_at));
  DELETE FROM mesh_internal.changes WHERE transaction_id = ANY (batch.ids);
  DELETE FROM mesh_internal.secret_changes WHERE transaction_id = ANY (batch.ids);
  UPDATE mesh_internal.transactions SET secrets = false WHERE id = ANY (borne) AND secrets;
  DELETE FROM mesh_internal.deadlines WHERE revision <= batch.last;
  DELETE FROM mesh_internal.transactions WHERE id = ANY (batch.ids) AND id <> ALL (borne);
  IF batch.last = through THEN -- once a round, those go that were left earlier and are borne no more
    DELETE FROM mesh_internal.transactions t WHERE t.revision <= before
      AND NOT EXISTS (SELECT FROM mesh.resources r WHERE r.xid = t.xid AND r.updated_at = t.begun_at);
  END IF;
  UPDATE mesh_internal.installation SET pruned_through = batch.last, pruned_time = batch.time;
  RETURN batch.last - before;
END $$;

COMMENT ON FUNCTION mesh.prune IS 'Deletes the history up to a revision, the oldest first, and returns how many revisions went. Resources stay. With at_most it ends after that many changes: call it until it returns 0.';

-- expired_revision returns the last revision that the settings history_max_age and
-- history_max_revisions no longer keep.
CREATE OR REPLACE FUNCTION mesh.expired_revision() RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN greatest(
    mesh.newest_revision() - mesh.setting('history_max_revisions')::bigint,
    mesh_internal.newest_revision_by(clock_timestamp() - mesh.setting('history_max_age')::interval));
END $$;

COMMENT ON FUNCTION mesh.expired_revision IS 'Returns the last revision whose history no longer has to be kept, by the settings history_max_age and history_max_revisions.';

CREATE OR REPLACE FUNCTION mesh.prune_expired(at_most bigint DEFAULT 1000) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN mesh.prune(mesh.expired_revision(), at_most);
END $$;

COMMENT ON FUNCTION mesh.prune_expired IS 'Deletes a batch of the history that the settings do not keep, and returns how many revisions went. Every mcp-server calls it now and then.';

-- chores returns what a server has to do, and when. Times are durations, because clocks differ.
CREATE OR REPLACE FUNCTION mesh_internal.chores(
  OUT standby boolean, OUT oldest_revision bigint, OUT waiting bigint, OUT seconds_to_deadline double precision)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  standby := pg_is_in_recovery();
  oldest_revision := mesh.oldest_revision();
  SELECT count(*), extract(epoch FROM min(deadline) - clock_timestamp()) INTO waiting, seconds_to_deadline
    FROM mesh_internal.deadlines WHERE state = 'waiting';
END $$;

COMMENT ON FUNCTION mesh_internal.chores IS 'What a server needs to know to revert in time and to prune.';
