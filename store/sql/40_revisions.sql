-- A transaction that changes resources becomes one revision. Statement triggers record the net
-- change of each resource while it runs, and the resources get its xid. A deferred trigger numbers
-- the transaction at commit, under a lock that is released when the commit is visible. So numbers
-- are in the order of commits: a reader that has seen revision N never finds a new one below it.

-- running_transaction is the row of the running transaction, if it has changed something.
CREATE OR REPLACE VIEW mesh_internal.running_transaction AS
  SELECT * FROM mesh_internal.transactions WHERE xid = pg_current_xact_id_if_assigned() AND begun_at = now();

COMMENT ON VIEW mesh_internal.running_transaction IS 'Internal. Read mesh.revisions.';

-- advance_sequences advances the sequences past the values in their columns, and returns how many
-- were behind. Neither logical replication nor a dump of single tables copies sequences.
CREATE OR REPLACE FUNCTION mesh.advance_sequences() RETURNS int
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  own    record;
  behind int := 0;
  newest bigint;
  next   bigint;
BEGIN
  FOR own IN
    SELECT a.attrelid::regclass AS relation, a.attname AS name, pg_get_serial_sequence(a.attrelid::regclass::text, a.attname) AS sequence
    FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
    WHERE c.relnamespace = ANY ('{mesh,mesh_internal}'::regnamespace[]) AND c.relkind = 'r' AND a.attidentity <> ''
  LOOP
    EXECUTE format('SELECT (SELECT max(%I) FROM %s), last_value + is_called::int FROM %s', own.name, own.relation, own.sequence) INTO newest, next;
    IF newest >= next THEN
      PERFORM setval(own.sequence, newest);
      behind := behind + 1;
    END IF;
  END LOOP;
  RETURN behind;
END $$;

COMMENT ON FUNCTION mesh.advance_sequences IS 'Advances the sequences of the mesh past the values in their columns, as is needed after logical replication, and returns how many were behind. Every migration calls it.';

-- current_transaction returns the row of the running transaction, or takes an id for it. An id that
-- is already used means that a sequence is behind: the transaction would be recorded as part of
-- another.
CREATE OR REPLACE FUNCTION mesh_internal.current_transaction() RETURNS mesh_internal.transactions LANGUAGE plpgsql AS $$
DECLARE
  t mesh_internal.transactions;
BEGIN
  SELECT * INTO t FROM mesh_internal.running_transaction;
  IF NOT FOUND THEN
    t.id := nextval('mesh_internal.transactions_id_seq');
    IF EXISTS (SELECT FROM mesh_internal.transactions x WHERE x.id = t.id) THEN
      PERFORM mesh.advance_sequences();
      t.id := nextval('mesh_internal.transactions_id_seq');
    END IF;
  END IF;
  RETURN t;
END $$;

-- expect_number makes the deferred trigger fire after the changes are recorded; in a session that
-- checks constraints early it fires at once. If it fired before the end of the transaction it fires
-- again, and the transaction keeps its number.
CREATE OR REPLACE FUNCTION mesh_internal.expect_number(of bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO mesh_internal.transactions AS t (id) VALUES (of) ON CONFLICT (id) DO UPDATE SET pending = true WHERE NOT t.pending;
END $$;

-- refuse_unsound raises everything that is wrong with the first unsound resource, up to 20
-- problems.
CREATE OR REPLACE FUNCTION mesh_internal.refuse_unsound(written mesh_internal.changes[]) RETURNS void LANGUAGE plpgsql STABLE AS $$
DECLARE
  c        mesh_internal.changes;
  r        mesh.resources;
  problems mesh_internal.problem[];
BEGIN
  FOREACH c IN ARRAY written LOOP
    CONTINUE WHEN c.after_spec IS NULL;
    r.kind := c.kind;
    r.api_group := c.api_group;
    r.namespace := c.namespace;
    r.name := c.name;
    r.spec := c.after_spec;
    r.labels := c.after_labels;
    r.annotations := c.after_annotations;
    problems := ARRAY(SELECT p FROM mesh_internal.resource_problems(r) p LIMIT 20);
    IF problems <> '{}' THEN
      PERFORM mesh_internal.refuse('23514', c.kind, c.namespace, c.name, problems);
    END IF;
  END LOOP;
END $$;

-- check_changes refuses resources that break the rules.
CREATE OR REPLACE FUNCTION mesh_internal.check_changes(written mesh_internal.changes[]) RETURNS void LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF pg_column_size(written) > 8192 THEN
    PERFORM mesh_internal.refuse_large(written);
  END IF;
  IF NOT mesh_internal.is_sound(written) THEN
    PERFORM mesh_internal.refuse_unsound(written);
  END IF;
END $$;

-- The changes of a statement are checked in batches, because there may be many.
CREATE OR REPLACE FUNCTION mesh_internal.record_insert() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
  portion mesh_internal.changes[];
  done    text;
BEGIN
  FOR portion IN
    WITH written AS (
      INSERT INTO mesh_internal.changes AS c (transaction_id, kind, api_group, namespace, name, after_spec, after_labels, after_annotations)
      SELECT (SELECT (mesh_internal.current_transaction()).id), n.kind, n.api_group, n.namespace, n.name, n.spec, n.labels, n.annotations
      FROM new_rows n
      ON CONFLICT (transaction_id, kind, api_group, namespace, name) DO UPDATE SET
        merged = true, after_spec = EXCLUDED.after_spec, after_labels = EXCLUDED.after_labels, after_annotations = EXCLUDED.after_annotations
      RETURNING c AS change
    )
    SELECT array_agg(change) FROM (SELECT change, row_number() OVER () / 200 AS n FROM written) w GROUP BY n
  LOOP
    done := mesh_internal.check_changes(portion);
  END LOOP;
  IF FOUND THEN
    done := mesh_internal.expect_number(portion[1].transaction_id);
  END IF;
  RETURN NULL;
END $$;

-- A row with a new key counts as one resource deleted and one added.
CREATE OR REPLACE FUNCTION mesh_internal.record_update() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
  portion mesh_internal.changes[];
  done    text;
BEGIN
  IF current_setting('mesh.numbering', true) <> '' AND mesh_internal.does_own_work('numbering') THEN
    RETURN NULL;
  END IF;
  FOR portion IN
    WITH written AS (
      INSERT INTO mesh_internal.changes AS c (transaction_id, kind, api_group, namespace, name,
        before_spec, before_labels, before_annotations, before_revision, before_generation, before_created_at, before_updated_at,
        after_spec, after_labels, after_annotations)
      SELECT (SELECT (mesh_internal.current_transaction()).id),
        coalesce(n.kind, o.kind), coalesce(n.api_group, o.api_group), coalesce(n.namespace, o.namespace), coalesce(n.name, o.name),
        o.spec, o.labels, o.annotations,
        (SELECT x.revision FROM mesh_internal.transactions x WHERE x.xid = o.xid AND x.begun_at = o.updated_at), o.generation, o.created_at, o.updated_at,
        n.spec, n.labels, n.annotations
      FROM old_rows o FULL JOIN new_rows n
        ON n.kind = o.kind AND n.api_group = o.api_group AND n.namespace = o.namespace AND n.name = o.name
      WHERE n.spec IS DISTINCT FROM o.spec OR n.labels IS DISTINCT FROM o.labels OR n.annotations IS DISTINCT FROM o.annotations
      ON CONFLICT (transaction_id, kind, api_group, namespace, name) DO UPDATE SET
        merged = true, after_spec = EXCLUDED.after_spec, after_labels = EXCLUDED.after_labels, after_annotations = EXCLUDED.after_annotations
      RETURNING c AS change
    )
    SELECT array_agg(change) FROM (SELECT change, row_number() OVER () / 200 AS n FROM written) w GROUP BY n
  LOOP
    done := mesh_internal.check_changes(portion);
  END LOOP;
  IF FOUND THEN
    done := mesh_internal.expect_number(portion[1].transaction_id);
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION mesh_internal.record_delete() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
  id   bigint;
  done text;
BEGIN
  WITH written AS (
    INSERT INTO mesh_internal.changes AS c (transaction_id, kind, api_group, namespace, name,
      before_spec, before_labels, before_annotations, before_revision, before_generation, before_created_at, before_updated_at)
    SELECT (SELECT (mesh_internal.current_transaction()).id), o.kind, o.api_group, o.namespace, o.name,
      o.spec, o.labels, o.annotations,
        (SELECT x.revision FROM mesh_internal.transactions x WHERE x.xid = o.xid AND x.begun_at = o.updated_at), o.generation, o.created_at, o.updated_at
    FROM old_rows o
    ON CONFLICT (transaction_id, kind, api_group, namespace, name) DO UPDATE SET
      merged = true, after_spec = NULL, after_labels = NULL, after_annotations = NULL
    RETURNING c.transaction_id
  )
  SELECT max(transaction_id) INTO id FROM written;
  IF id > 0 THEN
    done := mesh_internal.expect_number(id);
  END IF;
  RETURN NULL;
END $$;

DROP TRIGGER IF EXISTS record_insert ON mesh.resources;
CREATE TRIGGER record_insert AFTER INSERT ON mesh.resources
  REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION mesh_internal.record_insert();

DROP TRIGGER IF EXISTS record_update ON mesh.resources;
CREATE TRIGGER record_update AFTER UPDATE ON mesh.resources
  REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION mesh_internal.record_update();

DROP TRIGGER IF EXISTS record_delete ON mesh.resources;
CREATE TRIGGER record_delete AFTER DELETE ON mesh.resources
  REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION mesh_internal.record_delete();

-- author returns the role that connected. A program that writes for others names them in
-- mesh.author; its role must be the owner's, or one that mesh.grant_server was called for.
CREATE OR REPLACE FUNCTION mesh_internal.author() RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
  named text := current_setting('mesh.author', true);
BEGIN
  IF named <> '' AND mesh_internal.speaks_for_others() THEN
    RETURN named;
  END IF;
  RETURN session_user;
END $$;

-- correct_repeated corrects a transaction that changed a resource more than once: generation and
-- times become what one change would have set.
CREATE OR REPLACE FUNCTION mesh_internal.correct_repeated(of bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM mesh_internal.begin_own_work('numbering');
  UPDATE mesh.resources r SET
    generation = coalesce(c.before_generation, 0) + (c.after_spec IS DISTINCT FROM c.before_spec)::int, created_at = coalesce(c.before_created_at, now())
  FROM mesh_internal.changes c
  WHERE c.transaction_id = of AND c.merged AND c.after_spec IS NOT NULL
    AND (r.generation, r.created_at) IS DISTINCT FROM (coalesce(c.before_generation, 0) + (c.after_spec IS DISTINCT FROM c.before_spec)::int, coalesce(c.before_created_at, now()))
    AND r.kind = c.kind AND r.api_group = c.api_group AND r.namespace = c.namespace AND r.name = c.name;
  PERFORM mesh_internal.end_own_work('numbering');
END $$;

DROP FUNCTION IF EXISTS mesh_internal.settle_repeated(bigint); -- its name in earlier programs

-- forget_undone deletes changes that cancelled each other out, counts them, and restores generation
-- and times of their resources.
CREATE OR REPLACE FUNCTION mesh_internal.forget_undone(of bigint) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
  undone    mesh_internal.changes;
  forgotten int := 0;
BEGIN
  PERFORM mesh_internal.begin_own_work('numbering');
  FOR undone IN
    DELETE FROM mesh_internal.changes WHERE transaction_id = of AND merged
      AND after_spec IS NOT DISTINCT FROM before_spec
      AND after_labels IS NOT DISTINCT FROM before_labels
      AND after_annotations IS NOT DISTINCT FROM before_annotations
    RETURNING *
  LOOP
    forgotten := forgotten + 1;
    UPDATE mesh.resources r SET
      generation = undone.before_generation, created_at = undone.before_created_at, updated_at = undone.before_updated_at,
      xid = (SELECT t.xid FROM mesh_internal.transactions t WHERE t.revision = undone.before_revision)
    WHERE r.kind = undone.kind AND r.api_group = undone.api_group AND r.namespace = undone.namespace AND r.name = undone.name;
  END LOOP;
  PERFORM mesh_internal.end_own_work('numbering');
  RETURN forgotten;
END $$;

-- postpone_number moves the numbering to the end of a transaction that has its constraints checked
-- early, because the lock would keep everybody else from committing until then. It reports whether
-- it did: at most once per message of the client, which may include the COMMIT.
CREATE OR REPLACE FUNCTION mesh_internal.postpone_number(t mesh_internal.transactions) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  message text := statement_timestamp()::text;
BEGIN
  IF current_setting('mesh.postponed_in', true) = message THEN
    RETURN false;
  END IF;
  PERFORM set_config('mesh.postponed_in', message, true);
  SET CONSTRAINTS mesh_internal.number_transaction DEFERRED;
  UPDATE mesh_internal.transactions SET pending = true WHERE id = t.id;
  RETURN true;
END $$;

-- gained returns how many resources there are more by a change: 1, 0 or -1. A row that came around the triggers
-- has no revision, and is gained by its first change.
CREATE OR REPLACE FUNCTION mesh_internal.gained(change mesh_internal.changes) RETURNS int LANGUAGE sql IMMUTABLE AS $$
  SELECT (change.before_spec IS NULL OR change.before_revision IS NULL)::int - (change.after_spec IS NULL)::int
$$;

-- number_transaction runs at commit. Changes that were undone make no revision. It takes the next
-- number under a lock that lasts until the transaction has ended and its rows are visible.
--
-- Statistics say nothing about the running transaction: after a bulk load they would make Postgres
-- read everything for a change of one row, and compile the query. So the plan goes from the changes
-- to their resources.
CREATE OR REPLACE FUNCTION mesh_internal.number_transaction() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  t       mesh_internal.transactions;
  own     record;
  goes_on boolean := false; -- the transaction, after this
  limited boolean := coalesce(current_setting('mesh.limited', true), '') = 'on'; -- see mesh_internal.is_limited
  done    text; -- A call that is assigned costs less than one that is performed, which is a query.
BEGIN
  SELECT x AS transaction, c.size, c.gained, c.repeated, c.of_mesh, c.of_groups, c.of_workloads INTO own
    FROM mesh_internal.transactions x,
      LATERAL (SELECT count(*) AS size, bool_or(merged) AS repeated, bool_or(api_group = 'core') AS of_mesh,
          bool_or(kind = 'WorkloadGroup' AND after_spec IS NULL) AS of_groups, bool_or(kind IN ('WorkloadGroup', 'WorkloadEntry')) AS of_workloads,
          sum(mesh_internal.gained(changes)) AS gained
        FROM mesh_internal.changes WHERE transaction_id = x.id) c
    WHERE x.id = NEW.id AND x.pending;
  IF NOT FOUND THEN
    RETURN NULL;
  END IF;
  t := own.transaction;
  IF own.of_workloads AND mesh_internal.follow_workloads(t.id) THEN
    SELECT count(*), bool_or(merged), sum(mesh_internal.gained(changes)) INTO own.size, own.repeated, own.gained FROM mesh_internal.changes WHERE transaction_id = t.id;
  END IF;
  t.size := own.size;
  IF own.repeated THEN
    IF t.revision IS NULL THEN
      t.size := t.size - mesh_internal.forget_undone(t.id);
    END IF;
    done := mesh_internal.correct_repeated(t.id);
  END IF;
  IF t.secrets THEN
    t.size := t.size + mesh_internal.count_secrets(t);
  END IF;
  IF t.size = 0 THEN
    DELETE FROM mesh_internal.transactions WHERE id = t.id;
    PERFORM mesh_internal.tell_of_no_change(t);
    RETURN NULL;
  END IF;
  IF pg_trigger_depth() > 1 OR left(current_query(), 1000) ~* 'constraints' THEN
    goes_on := mesh_internal.postpone_number(t);
  END IF;
  IF NOT mesh_internal.writes_all() THEN
    limited := true;
    IF NOT goes_on THEN
      done := mesh_internal.refuse_late_work();
    END IF;
  END IF;
  IF limited THEN
    done := mesh_internal.check_quotas(t.id);
    done := mesh_internal.refuse_foreign(t.id);
    IF NOT goes_on THEN
      done := mesh_internal.count_written(t.id);
    END IF;
  END IF;
  done := mesh_internal.examine_references(t.id, goes_on);
  IF own.of_groups THEN
    PERFORM mesh_internal.tell_problems(mesh_internal.orphans_of(t.id));
  END IF;
  IF goes_on THEN
    RETURN NULL;
  END IF;
  IF t.revision IS NULL THEN
    LOCK TABLE mesh_internal.numbering IN SHARE UPDATE EXCLUSIVE MODE; -- see mesh_internal.lock_numbering
  END IF;
  IF own.of_mesh THEN
    done := mesh_internal.commit_mesh_config(t.id);
  END IF;
  IF current_setting('transaction_isolation') = 'read committed' THEN
    t := mesh_internal.write_number(t, coalesce(own.gained, 0));
  ELSE
    t := mesh_internal.write_number_isolated(t, coalesce(own.gained, 0));
  END IF;
  IF t.confirm_within IS NOT NULL THEN
    PERFORM mesh_internal.await_confirmation(t);
  END IF;
  IF mesh_internal.notification_queue_usage() < 0.5 THEN
    done := pg_notify('mesh', t.revision::text);
  ELSE
    done := mesh_internal.notify('mesh', t.revision::text);
  END IF;
  IF own.of_mesh THEN -- which has the trust domain
    done := mesh_internal.notify('mesh_servers', 'mesh_configs');
  END IF;
  RETURN NULL;
END $$;

DROP FUNCTION IF EXISTS mesh_internal.write_number(mesh_internal.transactions), mesh_internal.write_number_isolated(mesh_internal.transactions); -- of earlier programs

-- write_number gives the transaction the next number, unless it has one, and a time no earlier than
-- that of the last. It notes how many resources there are, by those that were gained since the last, so
-- that rows that somebody deletes around the triggers are missed (58_missing.sql).
CREATE OR REPLACE FUNCTION mesh_internal.write_number(t mesh_internal.transactions, gained bigint) RETURNS mesh_internal.transactions LANGUAGE plpgsql AS $$
DECLARE
  last mesh_internal.transactions;
BEGIN
  SELECT * INTO last FROM mesh_internal.transactions n WHERE n.revision IS NOT NULL AND n.id <> t.id ORDER BY n.revision DESC LIMIT 1;
  UPDATE mesh_internal.transactions x SET
    revision    = coalesce(x.revision, last.revision + 1, 1),
    time        = coalesce(x.time, greatest(clock_timestamp(), last.time)),
    pending     = false,
    author      = mesh_internal.author(),
    application = current_setting('application_name'),
    message     = coalesce(current_setting('mesh.message', true), ''),
    size        = t.size,
    resources   = coalesce(last.resources + gained, (SELECT count(*) FROM mesh.resources))
  WHERE x.id = t.id
  RETURNING x.* INTO t;
  RETURN t;
END $$;

-- write_number_isolated is for transactions above READ COMMITTED. They do not see newer commits, so
-- they try a number that is taken, and have to be retried, as is usual at that level.
CREATE OR REPLACE FUNCTION mesh_internal.write_number_isolated(t mesh_internal.transactions, gained bigint) RETURNS mesh_internal.transactions LANGUAGE plpgsql AS $$
BEGIN
  RETURN mesh_internal.write_number(t, gained);
EXCEPTION WHEN unique_violation THEN
  RAISE serialization_failure USING
    MESSAGE = 'could not serialize access: another transaction has changed resources since this one began',
    HINT    = 'run the transaction again';
END $$;

DROP TRIGGER IF EXISTS number_transaction ON mesh_internal.transactions;
CREATE CONSTRAINT TRIGGER number_transaction AFTER INSERT OR UPDATE OF pending ON mesh_internal.transactions
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.pending) EXECUTE FUNCTION mesh_internal.number_transaction();
