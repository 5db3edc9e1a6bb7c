-- What the running transaction is about to commit, and what it would be told. Both are made of the
-- rows that a ROLLBACK TO SAVEPOINT takes back as well, so they need not know of savepoints.

-- pending_resources returns what the running transaction has changed so far. Of secrets it has what
-- the history keeps.
CREATE OR REPLACE FUNCTION mesh_internal.pending_resources(kinds text[], namespaces text[], names text[]) RETURNS TABLE (
  api_group text, kind text, namespace text, name text,
  before_spec jsonb, before_labels jsonb, before_annotations jsonb, after_spec jsonb, after_labels jsonb, after_annotations jsonb)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT c.* FROM (
    SELECT c.api_group, c.kind, c.namespace, c.name, c.before_spec, c.before_labels, c.before_annotations, c.after_spec, c.after_labels, c.after_annotations
    FROM mesh_internal.running_transaction t JOIN mesh_internal.changes c ON c.transaction_id = t.id
    UNION ALL
    SELECT 'core', 'Secret', c.namespace, c.name, c.before - 'labels', c.before -> 'labels', '{}', c.after - 'labels', c.after -> 'labels', '{}'
    FROM mesh_internal.running_transaction t JOIN mesh_internal.secret_changes c ON c.transaction_id = t.id) c
  WHERE (c.before_spec IS NOT NULL OR c.after_spec IS NOT NULL)
    AND (kinds IS NULL OR c.kind = ANY (kinds)) AND (namespaces IS NULL OR c.namespace = ANY (namespaces)) AND (names IS NULL OR c.name = ANY (names))
$$;

CREATE OR REPLACE FUNCTION mesh.pending()
RETURNS TABLE (api_group text, kind text, namespace text, name text, operation text, path text, before jsonb, after jsonb)
LANGUAGE sql STABLE AS $$
  SELECT * FROM mesh_internal.differing_fields(NULL, NULL, NULL, NULL, NULL)
$$;

COMMENT ON FUNCTION mesh.pending IS 'Returns what the running transaction is about to commit: a row for each field, as mesh.diff does, of the resources and secrets that one may read. Empty outside a transaction.';

-- commit_refusal runs what a commit checks beside references, and returns the refusal as a problem,
-- if there is one. It warns of limits that are near.
CREATE OR REPLACE FUNCTION mesh_internal.commit_refusal(of bigint) RETURNS SETOF mesh_internal.link_problem
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  code    text;
  message text;
  detail  text;
  hint    text;
  first   jsonb; -- what is wrong with a resource, where that is it
BEGIN
  IF NOT mesh_internal.writes_all() THEN
    PERFORM mesh_internal.refuse_late_work();
  END IF;
  IF mesh_internal.is_limited() THEN
    PERFORM mesh_internal.check_quotas(of), mesh_internal.refuse_foreign(of), mesh_internal.count_written(of);
  END IF;
  PERFORM mesh_internal.commit_mesh_config(of);
EXCEPTION WHEN check_violation OR feature_not_supported OR SQLSTATE 'MS008' THEN
  GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
  first := CASE code WHEN '23514' THEN detail::jsonb -> 0 END;
  RETURN QUERY SELECT 'error', CASE code WHEN 'MS008' THEN 'limit' ELSE 'refused' END, first ->> 'kind',
    (SELECT k.api_group FROM mesh.kinds k WHERE k.kind = first ->> 'kind' ORDER BY k.api_group LIKE '%istio.io' DESC LIMIT 1),
    first ->> 'namespace', first ->> 'name', coalesce(first ->> 'path', ''), coalesce(first ->> 'reason', message), nullif(hint, '');
END $$;

-- problems_at_commit returns the problems that a commit would tell of, and changes what the commit
-- would.
CREATE OR REPLACE FUNCTION mesh_internal.problems_at_commit(t mesh_internal.transactions) RETURNS mesh_internal.link_problem[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  of_machines mesh_internal.changes[] := ARRAY(SELECT c FROM mesh_internal.changes c
    WHERE c.transaction_id = t.id AND (mesh_internal.is_of_machine(c.kind, c.before_annotations) OR mesh_internal.is_of_machine(c.kind, c.after_annotations)));
  followed boolean := mesh_internal.follow_workloads(t.id, false);
BEGIN
  IF t.size > 0 THEN -- it was examined before, by SET CONSTRAINTS
    PERFORM mesh_internal.put_links_back(t.id);
  END IF;
  RETURN mesh_internal.problems_made(t.id, t.secrets, ARRAY(SELECT c FROM mesh_internal.changed_links(t.id) c LIMIT 101))
    || mesh_internal.new_unreachable(t.id) || mesh_internal.orphans_of(t.id) || CASE WHEN followed THEN mesh_internal.put_back(of_machines) ELSE '{}' END;
END $$;

-- pending_problems takes back what it had to do for it, by an error that it catches.
CREATE OR REPLACE FUNCTION mesh.pending_problems()
RETURNS TABLE (refused boolean, severity text, code text, api_group text, kind text, namespace text, name text, path text, message text, hint text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  t        mesh_internal.transactions;
  refusals mesh_internal.link_problem[] := '{}';
  problems mesh_internal.link_problem[] := '{}';
  broken   mesh_internal.link_problem[] := '{}'; -- those for which the commit is refused
BEGIN
  SELECT * INTO t FROM mesh_internal.running_transaction;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  BEGIN
    refusals := ARRAY(SELECT r FROM mesh_internal.commit_refusal(t.id) r);
    problems := mesh_internal.problems_at_commit(t);
    broken := mesh_internal.refused_among(problems);
    problems := ARRAY(SELECT mesh_internal.as_told(p) FROM unnest(problems) p WHERE p <> ALL (broken)
      AND (mesh_internal.shows_all() OR p.namespace = ANY (mesh_internal.shown_namespaces())));
    broken := ARRAY(SELECT mesh_internal.as_told(p) FROM unnest(broken) p);
    RAISE EXCEPTION USING ERRCODE = 'MS099', MESSAGE = 'not to be seen';
  EXCEPTION WHEN SQLSTATE 'MS099' THEN
  END;
  RETURN QUERY SELECT DISTINCT p.refused, p.severity, p.code, p.api_group, p.kind, p.namespace, p.name, p.path, p.message, p.hint FROM (
      SELECT true AS refused, r.* FROM unnest(refusals || broken) r UNION ALL SELECT false, w.* FROM unnest(problems) w) p
    ORDER BY p.refused DESC, p.severity, p.kind, p.namespace, p.name, p.path;
END $$;

COMMENT ON FUNCTION mesh.pending_problems IS 'Returns the problems that the running transaction would be told of at its commit, and those for which it would be refused, with the columns of mesh.problems. Warnings of limits come as warnings. Changes nothing.';
