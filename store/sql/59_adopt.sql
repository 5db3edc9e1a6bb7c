-- Rows of mesh.resources can come around the triggers: from a dump of that table alone, or written
-- with triggers off. Then the history does not know them, or knows better, or says otherwise. Such
-- strays are adopted into a revision of their own, so that everybody learns of them as of any change.
-- So is it that rows went (58_missing.sql).

-- lock_unknown locks the resources whose transaction is unknown, and returns their positions. It
-- skips those that somebody is writing, which will be known in a moment.
CREATE OR REPLACE FUNCTION mesh_internal.lock_unknown() RETURNS tid[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN ARRAY(SELECT r.ctid FROM mesh.resources r
    WHERE NOT EXISTS (SELECT FROM mesh_internal.transactions t WHERE t.xid = r.xid AND t.begun_at = r.updated_at)
    FOR NO KEY UPDATE OF r SKIP LOCKED);
END $$;

-- lock_superseded does the same for rows that were put back over a later change. A row that
-- triggers wrote was written by the transaction that it names. So only rows of other transactions
-- are checked, and of those the ones newer than a transaction that was seen.
CREATE OR REPLACE FUNCTION mesh_internal.lock_superseded(seen xid8) RETURNS tid[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
  RETURN ARRAY(SELECT r.ctid FROM mesh.resources r
    WHERE r.xmin <> r.xid::xid AND (seen IS NULL OR age(r.xmin) <= age(seen::xid)) AND EXISTS (
      SELECT FROM mesh_internal.transactions t, mesh_internal.changes c JOIN mesh_internal.transactions l ON l.id = c.transaction_id
      WHERE t.xid = r.xid AND t.begun_at = r.updated_at AND l.revision > t.revision
        AND c.kind = r.kind AND c.api_group = r.api_group AND c.namespace = r.namespace AND c.name = r.name OFFSET 0)
    FOR NO KEY UPDATE OF r SKIP LOCKED);
END $$;

-- changed_around has the rows that an UPDATE around the triggers has left: they bear a transaction of
-- which the history says otherwise, or nothing. What of the history is pruned cannot tell. Rows as
-- triggers wrote them are passed over by their xmin alone.
CREATE OR REPLACE VIEW mesh_internal.changed_around AS
  SELECT r.ctid AS place, r.xmin AS writer, r.api_group, r.kind, r.namespace, r.name, t.revision
  FROM mesh.resources r JOIN mesh_internal.transactions t ON t.xid = r.xid AND t.begun_at = r.updated_at
    LEFT JOIN mesh_internal.changes c ON c.transaction_id = t.id AND c.kind = r.kind AND c.api_group = r.api_group AND c.namespace = r.namespace AND c.name = r.name
  WHERE r.xmin <> r.xid::xid AND t.revision > (SELECT i.pruned_through FROM mesh_internal.installation i)
    AND (c.after_spec, c.after_labels, c.after_annotations) IS DISTINCT FROM (r.spec, r.labels, r.annotations);

COMMENT ON VIEW mesh_internal.changed_around IS 'Internal. Read mesh.check_installation.';

-- lock_changed does the same for rows of that view. One that somebody has changed since is at another
-- place.
CREATE OR REPLACE FUNCTION mesh_internal.lock_changed(seen xid8) RETURNS tid[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
  RETURN ARRAY(SELECT r.ctid FROM mesh.resources r
    WHERE r.ctid = ANY (ARRAY(SELECT c.place FROM mesh_internal.changed_around c WHERE seen IS NULL OR age(c.writer) <= age(seen::xid)))
    FOR NO KEY UPDATE OF r SKIP LOCKED);
END $$;

-- note_adopted records the strays as changes: from the last state in the history, or as new, with
-- the generation and age that they have. They were locked before this statement began, so those
-- of which the history says the same by now became known meanwhile.
CREATE OR REPLACE FUNCTION mesh_internal.note_adopted(of bigint, places tid[]) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  noted bigint;
BEGIN
  INSERT INTO mesh_internal.changes (transaction_id, kind, api_group, namespace, name,
    before_spec, before_labels, before_annotations, before_revision, before_generation, before_created_at, before_updated_at,
    after_spec, after_labels, after_annotations)
  SELECT of, r.kind, r.api_group, r.namespace, r.name, l.after_spec, l.after_labels, l.after_annotations, l.revision,
    coalesce(l.generation, greatest(r.generation, 1) - 1), coalesce(l.created_at, r.created_at), l.begun_at,
    r.spec, r.labels, r.annotations
  FROM mesh.resources r LEFT JOIN mesh_internal.transactions own ON own.xid = r.xid AND own.begun_at = r.updated_at LEFT JOIN LATERAL
    mesh_internal.last_known(r.kind, r.api_group, r.namespace, r.name) last ON true
    LEFT JOIN LATERAL (SELECT last.*) l ON last.after_spec IS NOT NULL
  WHERE r.ctid = ANY (places)
    AND (own.id IS NULL OR (last.revision, last.after_spec, last.after_labels, last.after_annotations) IS DISTINCT FROM (own.revision, r.spec, r.labels, r.annotations));
  GET DIAGNOSTICS noted = ROW_COUNT;
  RETURN noted;
END $$;

-- adopted_in_words says what was adopted.
CREATE OR REPLACE FUNCTION mesh_internal.adopted_in_words(came bigint, went bigint) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
  SELECT 'adopted ' || concat_ws(', and ',
    CASE came WHEN 0 THEN NULL WHEN 1 THEN '1 resource that came around the triggers, as out of a dump of its table' ELSE came || ' resources that came around the triggers, as out of a dump of their table' END,
    CASE WHEN went > 0 THEN format('the deletion of %s with triggers off', CASE went WHEN 1 THEN '1 resource' ELSE went || ' resources' END) END)
$$;

-- adopt makes a revision of the strays and of what is missing, if there is any, and returns how many
-- resources that were, and the argument for the next call.
CREATE OR REPLACE FUNCTION mesh.adopt(INOUT seen xid8 DEFAULT NULL, OUT adopted bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  before CONSTANT xid8 := seen;
  places tid[];
  id     bigint;
  went   bigint := 0;
  fewer  boolean := seen IS NULL AND mesh_internal.missing_rows() > 0; -- to look for what is missing takes too long for every call
BEGIN
  IF NOT mesh_internal.speaks_for_others() THEN
    PERFORM mesh_internal.require_owner('adopt resources');
  END IF;
  seen := pg_snapshot_xmin(pg_current_snapshot());
  IF fewer THEN
    LOCK TABLE mesh.resources IN SHARE MODE;
    id := (mesh_internal.current_transaction()).id;
    went := mesh_internal.note_deleted(id);
  END IF;
  places := mesh_internal.lock_unknown() || mesh_internal.lock_superseded(before) || mesh_internal.lock_changed(before);
  adopted := 0;
  IF places <> '{}' THEN
    id := coalesce(id, (mesh_internal.current_transaction()).id);
    adopted := mesh_internal.note_adopted(id, places);
  END IF;
  IF adopted > 0 THEN
    PERFORM mesh_internal.begin_own_work('numbering');
    UPDATE mesh.resources r SET xid = pg_current_xact_id(), updated_at = now(), created_at = c.before_created_at,
      generation = c.before_generation + (c.after_spec IS DISTINCT FROM c.before_spec)::int,
      rules = CASE WHEN EXISTS (SELECT FROM mesh_internal.changed_around a WHERE a.kind = r.kind AND a.api_group = r.api_group AND a.namespace = r.namespace AND a.name = r.name)
        THEN 0 ELSE r.rules END -- what was checked was the row before the UPDATE
    FROM mesh_internal.changes c
    WHERE c.transaction_id = id AND r.ctid = ANY (places) AND r.kind = c.kind AND r.api_group = c.api_group AND r.namespace = c.namespace AND r.name = c.name;
    PERFORM mesh_internal.end_own_work('numbering');
  END IF;
  IF adopted + went = 0 AND fewer AND mesh_internal.missing_rows() > 0 THEN
    PERFORM mesh_internal.count_anew();
  ELSIF adopted + went > 0 THEN
    PERFORM set_config('mesh.author', 'mesh.adopt', true), mesh_internal.begin_own_work('adopting'),
      set_config('mesh.message', mesh_internal.adopted_in_words(adopted, went), true), mesh_internal.expect_number(id);
  END IF;
  adopted := adopted + went;
END $$;

COMMENT ON FUNCTION mesh.adopt IS 'Makes a revision of the resources that came around the triggers, or were changed or deleted there, from a dump of the table alone for instance, and returns how many there were. Every mcp-server calls it at its start and after rows were inserted, then without a look for what was deleted.';
