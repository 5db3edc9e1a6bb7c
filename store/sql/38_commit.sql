-- This keeps one role from holding up everybody's commits. A transaction that gets its revision
-- holds a lock that all other commits need. So nothing of its author's may run from then until its
-- end, and nobody else can take the lock.

-- lock_numbering waits for transactions that are getting their revisions, and makes others wait
-- until this one ends. It runs with the caller's rights: a tenant has none on the table. Of the
-- modes that exclude themselves, only for this one Postgres need not search the locks of all
-- sessions.
CREATE OR REPLACE FUNCTION mesh_internal.lock_numbering() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  LOCK TABLE mesh_internal.numbering IN SHARE UPDATE EXCLUSIVE MODE;
END $$;

COMMENT ON FUNCTION mesh_internal.lock_numbering IS 'Internal.';

-- refuse_late_work refuses a commit in which work of a tenant's would run or wait after the
-- transaction got its revision: deferred triggers and constraints of other tables, and cursors WITH
-- HOLD, whose queries run at the end of the transaction.
CREATE OR REPLACE FUNCTION mesh_internal.refuse_late_work() RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  late text;
BEGIN
  SELECT format('the table %s, which has a deferrable trigger or constraint', c.oid::regclass) INTO late
    FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
    WHERE l.pid = pg_backend_pid() AND l.locktype = 'relation' AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
      AND l.mode <> 'AccessShareLock' AND c.relnamespace <> ALL ('{mesh,mesh_internal}'::regnamespace[])
      AND EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = c.oid AND t.tgdeferrable)
    LIMIT 1;
  IF late IS NULL THEN
    SELECT format('the cursor %I, which is WITH HOLD', c.name) INTO late FROM pg_cursors c WHERE c.is_holdable AND c.creation_time >= now() LIMIT 1;
  END IF;
  IF late IS NOT NULL THEN
    RAISE feature_not_supported USING MESSAGE = format('a transaction that changes the mesh cannot also use %s', late),
      DETAIL = 'It would run at the end of the transaction, while all others who change the mesh wait.', HINT = 'use two transactions';
  END IF;
END $$;

-- notification_queue_usage returns how full the queue of unread notifications is, from 0 to 1.
-- Every commit asks; a function in the language sql would be planned each time.
CREATE OR REPLACE FUNCTION mesh_internal.notification_queue_usage() RETURNS double precision
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN pg_catalog.pg_notification_queue_usage();
END $$;

COMMENT ON FUNCTION mesh_internal.notification_queue_usage IS 'How full Postgres''s queue of notifications is, from 0 to 1. From 0.5 on none are sent, and servers find changes by asking.';

-- notify sends a notification. A full queue would fail the commit, and anybody who may connect can
-- fill it. So from half full on none is sent, and followers poll, more often then.
CREATE OR REPLACE FUNCTION mesh_internal.notify(channel text, payload text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF mesh_internal.notification_queue_usage() < 0.5 THEN
    PERFORM pg_notify(channel, payload);
  ELSIF current_setting('max_prepared_transactions')::int > 0 AND left(current_query(), 1000) ~* 'prepare' THEN -- a notification would have been refused
    RAISE feature_not_supported USING MESSAGE = 'a transaction that changes the mesh cannot be prepared', HINT = 'commit it';
  END IF;
END $$;

COMMENT ON FUNCTION mesh_internal.notify IS 'Internal.';
