-- A transaction that changes resources becomes one revision. Statement triggers note the net change of each resource
-- while the transaction runs; a deferred trigger gives the transaction its number at commit, under a lock that goes
-- when the commit is visible. So the order of numbers is the order of commits, and a reader that has seen revision N
-- will never find a new one below it.

-- +goose Up
CREATE TABLE mesh.transactions (
  id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  xid         xid8        NOT NULL DEFAULT pg_current_xact_id(),
  begun_at    timestamptz NOT NULL DEFAULT now(),
  revision    bigint UNIQUE, -- NULL until commit
  pending     boolean     NOT NULL DEFAULT true,  -- has changes that were not numbered yet
  numbering   boolean     NOT NULL DEFAULT false, -- while the number is written into the resources
  author      text        NOT NULL DEFAULT '',
  application text        NOT NULL DEFAULT '',
  message     text        NOT NULL DEFAULT '',
  time        timestamptz,
  size        int         NOT NULL DEFAULT 0,
  UNIQUE (xid, begun_at) -- A restored database starts anew with xids: alone they tell too little.
);
COMMENT ON TABLE mesh.transactions IS 'Internal. Read mesh.revisions.';

CREATE TABLE mesh.changes (
  transaction_id     bigint  NOT NULL,
  kind               text    NOT NULL,
  api_group          text    NOT NULL,
  namespace          text    NOT NULL,
  name               text    NOT NULL,
  merged             boolean NOT NULL DEFAULT false, -- more than one statement changed the resource
  before_spec        jsonb,
  before_labels      jsonb,
  before_annotations jsonb,
  before_revision    bigint,
  before_generation  bigint,
  before_created_at  timestamptz,
  before_updated_at  timestamptz,
  after_spec         jsonb,
  after_labels       jsonb,
  after_annotations  jsonb,
  PRIMARY KEY (transaction_id, kind, api_group, namespace, name)
);
COMMENT ON TABLE mesh.changes IS 'Internal. Read mesh.history.';
CREATE INDEX changes_of_resource ON mesh.changes (kind, namespace, name);

-- current_transaction finds the row of the running transaction, or makes it with the first change.
-- +goose StatementBegin
CREATE FUNCTION mesh.current_transaction() RETURNS mesh.transactions
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  t mesh.transactions;
BEGIN
  SELECT * INTO t FROM mesh.transactions WHERE xid = pg_current_xact_id() AND begun_at = now();
  IF NOT FOUND THEN
    INSERT INTO mesh.transactions DEFAULT VALUES RETURNING * INTO t;
  END IF;
  RETURN t;
END $$;
-- +goose StatementEnd

-- renumber lets the deferred trigger fire again where it has fired before the end of the transaction, because of SET
-- CONSTRAINTS IMMEDIATE or another deferred trigger that changes resources. The transaction keeps its number.
-- +goose StatementBegin
CREATE FUNCTION mesh.renumber(t mesh.transactions) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NOT t.pending THEN
    UPDATE mesh.transactions SET pending = true WHERE id = t.id;
  END IF;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION mesh.record_insert() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  t mesh.transactions := mesh.current_transaction();
BEGIN
  INSERT INTO mesh.changes AS c (transaction_id, kind, api_group, namespace, name, after_spec, after_labels, after_annotations)
  SELECT t.id, n.kind, n.api_group, n.namespace, n.name, n.spec, n.labels, n.annotations
  FROM new_rows n
  ON CONFLICT (transaction_id, kind, api_group, namespace, name) DO UPDATE SET
    merged = true, after_spec = EXCLUDED.after_spec, after_labels = EXCLUDED.after_labels, after_annotations = EXCLUDED.after_annotations;
  PERFORM mesh.renumber(t);
  RETURN NULL;
END $$;
-- +goose StatementEnd

-- A row that was given another key is one resource less and one more.
-- +goose StatementBegin
CREATE FUNCTION mesh.record_update() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  t mesh.transactions := mesh.current_transaction();
BEGIN
  IF t.numbering THEN
    RETURN NULL; -- the trigger that numbers writes the revision into the rows
  END IF;
  INSERT INTO mesh.changes AS c (transaction_id, kind, api_group, namespace, name,
    before_spec, before_labels, before_annotations, before_revision, before_generation, before_created_at, before_updated_at,
    after_spec, after_labels, after_annotations)
  SELECT t.id, coalesce(n.kind, o.kind), coalesce(n.api_group, o.api_group), coalesce(n.namespace, o.namespace), coalesce(n.name, o.name),
    o.spec, o.labels, o.annotations, o.revision, o.generation, o.created_at, o.updated_at,
    n.spec, n.labels, n.annotations
  FROM old_rows o FULL JOIN new_rows n
    ON n.kind = o.kind AND n.api_group = o.api_group AND n.namespace = o.namespace AND n.name = o.name
  WHERE n.spec IS DISTINCT FROM o.spec OR n.labels IS DISTINCT FROM o.labels OR n.annotations IS DISTINCT FROM o.annotations
  ON CONFLICT (transaction_id, kind, api_group, namespace, name) DO UPDATE SET
    merged = true, after_spec = EXCLUDED.after_spec, after_labels = EXCLUDED.after_labels, after_annotations = EXCLUDED.after_annotations;
  PERFORM mesh.renumber(t);
  RETURN NULL;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION mesh.record_delete() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  t mesh.transactions := mesh.current_transaction();
BEGIN
  INSERT INTO mesh.changes AS c (transaction_id, kind, api_group, namespace, name,
    before_spec, before_labels, before_annotations, before_revision, before_generation, before_created_at, before_updated_at)
  SELECT t.id, o.kind, o.api_group, o.namespace, o.name,
    o.spec, o.labels, o.annotations, o.revision, o.generation, o.created_at, o.updated_at
  FROM old_rows o
  ON CONFLICT (transaction_id, kind, api_group, namespace, name) DO UPDATE SET
    merged = true, after_spec = NULL, after_labels = NULL, after_annotations = NULL;
  PERFORM mesh.renumber(t);
  RETURN NULL;
END $$;
-- +goose StatementEnd

CREATE TRIGGER record_insert AFTER INSERT ON mesh.resources
  REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION mesh.record_insert();
CREATE TRIGGER record_update AFTER UPDATE ON mesh.resources
  REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION mesh.record_update();
CREATE TRIGGER record_delete AFTER DELETE ON mesh.resources
  REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION mesh.record_delete();

-- author is the role that connected. A program that writes for others, and so must belong to the owner of this schema,
-- names them in mesh.author.
-- +goose StatementBegin
CREATE FUNCTION mesh.author() RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(CASE WHEN pg_has_role(session_user, current_user, 'MEMBER') THEN nullif(current_setting('mesh.author', true), '') END, session_user)
$$;
-- +goose StatementEnd

-- number_transaction runs at commit. What a transaction did and undid makes no revision.
-- +goose StatementBegin
CREATE FUNCTION mesh.number_transaction() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  t mesh.transactions;
BEGIN
  SELECT * INTO t FROM mesh.transactions WHERE id = NEW.id AND pending;
  IF NOT FOUND THEN
    RETURN NULL;
  END IF;
  IF t.revision IS NULL THEN
    DELETE FROM mesh.changes WHERE transaction_id = t.id AND merged
      AND after_spec IS NOT DISTINCT FROM before_spec
      AND after_labels IS NOT DISTINCT FROM before_labels
      AND after_annotations IS NOT DISTINCT FROM before_annotations;
  END IF;
  SELECT count(*) INTO t.size FROM mesh.changes WHERE transaction_id = t.id;
  IF t.size = 0 THEN
    DELETE FROM mesh.transactions WHERE id = t.id;
    RETURN NULL;
  END IF;
  PERFORM mesh.take_number(t);
  PERFORM set_config('mesh.numbering', 'on', true);
  UPDATE mesh.resources r SET
    revision   = s.revision,
    generation = coalesce(c.before_generation, 0) + (c.after_spec IS DISTINCT FROM c.before_spec)::int,
    created_at = coalesce(c.before_created_at, s.time),
    updated_at = s.time
  FROM mesh.transactions s JOIN mesh.changes c ON c.transaction_id = s.id
  WHERE s.id = t.id AND c.after_spec IS NOT NULL
    AND r.kind = c.kind AND r.api_group = c.api_group AND r.namespace = c.namespace AND r.name = c.name;
  PERFORM set_config('mesh.numbering', '', true);
  UPDATE mesh.transactions SET pending = false, numbering = false WHERE id = t.id;
  RETURN NULL;
END $$;
-- +goose StatementEnd

-- take_number gives the transaction the next number, unless it has one, and wakes the followers. The lock is held until
-- the transaction has ended and its rows are visible. Above READ COMMITTED a transaction does not see what was committed since it
-- began and would take a number that is taken: it has to be run again, as its author expects at that level.
-- +goose StatementBegin
CREATE FUNCTION mesh.take_number(t mesh.transactions) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  newest mesh.transactions;
BEGIN
  IF t.revision IS NULL THEN
    PERFORM pg_advisory_xact_lock(1835365224, 1); -- "mesh" in ASCII, and the first lock of ours
    SELECT * INTO newest FROM mesh.transactions WHERE revision IS NOT NULL ORDER BY revision DESC LIMIT 1;
    t.revision := coalesce(newest.revision, 0) + 1;
    t.time := greatest(clock_timestamp(), newest.time);
  END IF;
  IF current_setting('transaction_isolation') = 'read committed' THEN
    PERFORM mesh.write_number(t);
    RETURN;
  END IF;
  BEGIN
    PERFORM mesh.write_number(t);
  EXCEPTION WHEN unique_violation THEN
    RAISE serialization_failure USING
      MESSAGE = 'could not serialize access: another transaction has changed resources since this one began',
      HINT    = 'run the transaction again';
  END;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION mesh.write_number(t mesh.transactions) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  UPDATE mesh.transactions SET
    revision    = t.revision,
    numbering   = true,
    author      = mesh.author(),
    application = current_setting('application_name'),
    message     = coalesce(current_setting('mesh.message', true), ''),
    time        = t.time,
    size        = t.size
  WHERE id = t.id;
  SELECT pg_notify('mesh', t.revision::text);
$$;
-- +goose StatementEnd

CREATE CONSTRAINT TRIGGER number_transaction AFTER INSERT OR UPDATE OF pending ON mesh.transactions
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.pending) EXECUTE FUNCTION mesh.number_transaction();

-- +goose Down
DROP TRIGGER record_insert ON mesh.resources;
DROP TRIGGER record_update ON mesh.resources;
DROP TRIGGER record_delete ON mesh.resources;
DROP FUNCTION mesh.record_insert;
DROP FUNCTION mesh.record_update;
DROP FUNCTION mesh.record_delete;
DROP FUNCTION mesh.renumber;
DROP FUNCTION mesh.current_transaction;
DROP FUNCTION mesh.take_number;
DROP FUNCTION mesh.write_number;
DROP TABLE mesh.transactions;
DROP FUNCTION mesh.number_transaction;
DROP FUNCTION mesh.author;
DROP TABLE mesh.changes;
