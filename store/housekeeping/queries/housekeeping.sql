-- name: Chores
-- What there is to do, and how many rows Postgres counts that were ever inserted into mesh.resources.
SELECT standby, oldest_revision, waiting, seconds_to_deadline, coalesce(pg_stat_get_tuples_inserted('mesh.resources'::regclass), 0) FROM mesh_internal.chores()

-- name: RevertOverdue
-- Takes back one revision that was not confirmed in time.
SELECT revision, state, reverted_by FROM mesh.revert_overdue()

-- name: PruneExpired
-- Prunes the oldest history, so many changes at most, and says how many revisions that were.
SELECT mesh.prune_expired($1)

-- name: Adopt
-- Makes a revision of resources that came around the triggers, and says how far it has looked.
SELECT adopted, seen::text FROM mesh.adopt($1::text::xid8)
