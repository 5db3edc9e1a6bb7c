-- Each transaction is told of the problems between resources that it makes. At commit its changes
-- go into mesh_internal.links; what is wrong there now and was not before is told, or refused if a
-- namespace is strict.

CREATE OR REPLACE VIEW mesh_internal.link_problems AS
  SELECT * FROM mesh_internal.dangling_hosts
  UNION ALL SELECT *, NULL FROM mesh_internal.dangling_ports
  UNION ALL SELECT *, NULL FROM mesh_internal.ambiguous_ports
  UNION ALL SELECT * FROM mesh_internal.dangling_subsets
  UNION ALL SELECT * FROM mesh_internal.dangling_gateways
  UNION ALL SELECT * FROM mesh_internal.dangling_attachments
  UNION ALL SELECT *, NULL FROM mesh_internal.dangling_services
  UNION ALL SELECT *, NULL FROM mesh_internal.dangling_sections
  UNION ALL SELECT * FROM mesh_internal.dangling_backends
  UNION ALL SELECT *, NULL FROM mesh_internal.dangling_credentials
  UNION ALL SELECT *, NULL FROM mesh_internal.conflicting_claims
  UNION ALL SELECT *, NULL FROM mesh_internal.conflicting_routes
  UNION ALL SELECT *, NULL FROM mesh_internal.conflicting_services
  UNION ALL SELECT *, NULL FROM mesh_internal.conflicting_addresses
  UNION ALL SELECT *, NULL FROM mesh_internal.conflicting_rules
  UNION ALL SELECT *, NULL FROM mesh_internal.conflicting_gateways
  UNION ALL SELECT *, NULL FROM mesh_internal.conflicting_defaults
  UNION ALL SELECT *, NULL FROM mesh_internal.control_plane_claims;

COMMENT ON VIEW mesh_internal.link_problems IS 'Internal. Read mesh.problems.';

-- link_problems_of is the view for one resource, without mere infos. It asks only about what can be
-- wrong with the kind, since Postgres prepares each part of a query before it finds that there is
-- nothing to look up. Most routes name no more than a Gateway and Services beside them.
CREATE OR REPLACE FUNCTION mesh_internal.link_problems_of(of_kind text, of_namespace text, of_name text) RETURNS SETOF mesh_internal.link_problem
LANGUAGE plpgsql STABLE AS $$
BEGIN
  CASE
  WHEN of_kind = 'VirtualService' THEN
    RETURN QUERY SELECT p.severity, p.code, p.kind, p.api_group, p.namespace, p.name, p.path, p.message, coalesce(p.hint, mesh_internal.hint_for(p.sought)) FROM (
        SELECT * FROM mesh_internal.dangling_hosts UNION ALL SELECT *, NULL FROM mesh_internal.dangling_ports UNION ALL SELECT *, NULL FROM mesh_internal.ambiguous_ports
        UNION ALL SELECT * FROM mesh_internal.dangling_subsets UNION ALL SELECT * FROM mesh_internal.dangling_gateways UNION ALL SELECT *, NULL FROM mesh_internal.conflicting_claims
        UNION ALL SELECT *, NULL FROM mesh_internal.conflicting_routes) p
      WHERE p.kind = of_kind AND p.namespace = of_namespace AND p.name = of_name AND p.severity <> 'info';
  WHEN of_kind = 'DestinationRule' THEN
    RETURN QUERY SELECT p.severity, p.code, p.kind, p.api_group, p.namespace, p.name, p.path, p.message, coalesce(p.hint, mesh_internal.hint_for(p.sought)) FROM (
        SELECT * FROM mesh_internal.dangling_hosts UNION ALL SELECT *, NULL FROM mesh_internal.dangling_credentials UNION ALL SELECT *, NULL FROM mesh_internal.conflicting_rules) p
      WHERE p.kind = of_kind AND p.namespace = of_namespace AND p.name = of_name;
  WHEN of_kind = 'ServiceEntry' THEN
    RETURN QUERY SELECT * FROM (SELECT * FROM mesh_internal.conflicting_services UNION ALL SELECT * FROM mesh_internal.conflicting_addresses UNION ALL SELECT * FROM mesh_internal.control_plane_claims) p
      WHERE p.kind = of_kind AND p.namespace = of_namespace AND p.name = of_name;
  WHEN of_kind = 'Gateway' THEN
    RETURN QUERY SELECT * FROM (SELECT * FROM mesh_internal.conflicting_gateways UNION ALL SELECT * FROM mesh_internal.dangling_credentials) p
      WHERE p.kind = of_kind AND p.namespace = of_namespace AND p.name = of_name AND p.severity <> 'info';
  WHEN of_kind LIKE '%Route' THEN
    RETURN QUERY SELECT p.severity, p.code, p.kind, p.api_group, p.namespace, p.name, p.path, p.message, coalesce(p.hint, mesh_internal.hint_for(p.sought)) FROM (
        SELECT * FROM mesh_internal.dangling_hosts UNION ALL SELECT *, NULL FROM mesh_internal.dangling_ports UNION ALL SELECT * FROM mesh_internal.dangling_attachments) p
      WHERE p.kind = of_kind AND p.namespace = of_namespace AND p.name = of_name;
    IF EXISTS (SELECT FROM mesh_internal.every_link l WHERE l.kind = of_kind AND l.namespace = of_namespace AND l.name = of_name
        AND (l.role = 'parent' AND (l.part IN ('Service', 'ServiceEntry') OR l.port IS NOT NULL OR l.detail ? 'section')
          OR l.role = 'backend' AND (l.part NOT IN ('Service', 'Hostname') OR l.detail ->> 'namespace' <> l.namespace))) THEN
      RETURN QUERY SELECT p.severity, p.code, p.kind, p.api_group, p.namespace, p.name, p.path, p.message, coalesce(p.hint, mesh_internal.hint_for(p.sought)) FROM (
          SELECT *, NULL::text[] AS sought FROM mesh_internal.dangling_services UNION ALL SELECT *, NULL FROM mesh_internal.dangling_sections UNION ALL SELECT * FROM mesh_internal.dangling_backends
          UNION ALL SELECT *, NULL FROM mesh_internal.conflicting_routes) p
        WHERE p.kind = of_kind AND p.namespace = of_namespace AND p.name = of_name;
    END IF;
  ELSE
    RETURN QUERY SELECT p.severity, p.code, p.kind, p.api_group, p.namespace, p.name, p.path, p.message, coalesce(p.hint, mesh_internal.hint_for(p.sought)) FROM (
        SELECT * FROM mesh_internal.dangling_hosts UNION ALL SELECT *, NULL FROM mesh_internal.dangling_ports UNION ALL SELECT *, NULL FROM mesh_internal.ambiguous_ports
        UNION ALL SELECT * FROM mesh_internal.dangling_subsets UNION ALL SELECT * FROM mesh_internal.dangling_attachments UNION ALL SELECT *, NULL FROM mesh_internal.dangling_services
        UNION ALL SELECT *, NULL FROM mesh_internal.dangling_sections UNION ALL SELECT * FROM mesh_internal.dangling_backends UNION ALL SELECT *, NULL FROM mesh_internal.dangling_credentials
        UNION ALL SELECT *, NULL FROM mesh_internal.conflicting_defaults) p
      WHERE p.kind = of_kind AND p.namespace = of_namespace AND p.name = of_name;
  END CASE;
END $$;

-- changed_links lists the changes of a transaction that may change what a resource names or makes;
-- a change of weights, for instance, does not. Once the transaction has a number, its links may be
-- those of a state in between.
CREATE OR REPLACE FUNCTION mesh_internal.changed_links(of bigint) RETURNS SETOF mesh_internal.changes
LANGUAGE sql STABLE AS $$
  SELECT c.* FROM mesh_internal.changes c,
    LATERAL (SELECT c.before_spec || '{}', c.after_spec || '{}' OFFSET 0) AS spec (before, after) -- unpacked once
  WHERE c.transaction_id = of
    AND (CASE
        WHEN c.kind <> 'VirtualService' OR c.before_spec IS NULL OR c.after_spec IS NULL THEN spec.after IS DISTINCT FROM spec.before
        ELSE spec.before - 'http' <> spec.after - 'http' OR mesh_internal.leads_elsewhere(spec.before -> 'http', spec.after -> 'http') END
      OR c.kind = 'ServiceEntry' AND c.after_labels IS DISTINCT FROM c.before_labels -- as entries of one host are told apart by them
      OR (SELECT t.revision FROM mesh_internal.transactions t WHERE t.id = of) > 0) -- EXISTS would be planned as a hash of all transactions
$$;

-- leads_elsewhere reports whether one of the HTTP routes names something else than its predecessor.
CREATE OR REPLACE FUNCTION mesh_internal.leads_elsewhere(was jsonb, became jsonb) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  before jsonb;
  after  jsonb;
BEGIN
  FOR i IN 0 .. CASE jsonb_typeof(was) WHEN 'array' THEN jsonb_array_length(was) ELSE 0 END LOOP -- one further, in case there are more now
    before := was -> i;
    after := became -> i;
    CONTINUE WHEN before IS NOT DISTINCT FROM after;
    IF before IS NULL OR after IS NULL OR mesh_internal.names_others(before, after) THEN
      RETURN true;
    END IF;
  END LOOP;
  RETURN false;
END $$;

-- referrers lists the resources that name what these links make.
CREATE OR REPLACE FUNCTION mesh_internal.referrers(made mesh_internal.links[]) RETURNS SETOF mesh_internal.links
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN QUERY SELECT l.* FROM unnest(made) m JOIN mesh_internal.links l ON l.target = m.target AND l.role = ANY (CASE m.role
      WHEN 'service' THEN '{route,backend,rule}'::text[] WHEN 'rule' THEN '{route}' WHEN 'listener' THEN '{parent}'
      WHEN 'is' THEN '{gateway,match,delegate,parent,attachment,backend}' END)
    WHERE m.role <> 'rule' OR l.part = m.part;
  IF EXISTS (SELECT FROM unnest(made) m WHERE m.role = 'server') THEN
    RETURN QUERY SELECT l.* FROM (SELECT DISTINCT m.namespace || '/' || m.name AS key FROM unnest(made) m WHERE m.role = 'server') g
      JOIN mesh_internal.links l ON l.target = g.key AND l.role = 'gateway';
  END IF;
  IF EXISTS (SELECT FROM unnest(made) m WHERE m.role = 'grant' OR m.role = 'rule' AND m.target LIKE '*%') THEN
    RETURN QUERY SELECT l.* FROM unnest(made) m JOIN mesh_internal.links l ON
      m.role = 'grant' AND l.role = 'backend' AND l.detail ->> 'namespace' = m.namespace
      OR m.role = 'rule' AND l.role = 'route' AND l.part = m.part AND mesh_internal.is_within(l.target, m.target);
  END IF;
END $$;

-- problems_among returns the problems of the resources with these links. If they are very many, it is
-- quicker to ask for all, which come without hints.
CREATE OR REPLACE FUNCTION mesh_internal.problems_among(suspects mesh_internal.links[]) RETURNS mesh_internal.link_problem[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF cardinality(suspects) > 500 THEN
    RETURN mesh_internal.all_problems();
  END IF;
  RETURN ARRAY(SELECT p
    FROM unnest(suspects) s, mesh_internal.link_problems_of(s.kind, s.namespace, s.name) p WHERE p.api_group = s.api_group);
END $$;

-- all_problems returns the problems of all resources of the mesh's own. Postgres plans it each time, for the current
-- mesh_internal.links. Statistics from before a bulk load would suggest a nested loop that never
-- ends.
CREATE OR REPLACE FUNCTION mesh_internal.all_problems() RETURNS mesh_internal.link_problem[]
LANGUAGE plpgsql STABLE SET enable_nestloop = off SET enable_hashjoin = on SET enable_mergejoin = on SET enable_seqscan = on AS $$
DECLARE
  problems mesh_internal.link_problem[];
BEGIN
  EXECUTE $query$
    SELECT array_agg((p.severity, p.code, p.kind, p.api_group, p.namespace, p.name, p.path, p.message, NULL)::mesh_internal.link_problem)
    FROM mesh_internal.link_problems p WHERE p.severity <> 'info'
      AND EXISTS (SELECT FROM mesh.resources r WHERE (r.name, r.namespace, r.kind, r.api_group) = (p.name, p.namespace, p.kind, p.api_group))$query$ INTO problems;
  RETURN coalesce(problems, '{}');
END $$;

-- new_problems returns problems that were not there before. A problem that only moved is not new.
CREATE OR REPLACE FUNCTION mesh_internal.new_problems(before mesh_internal.link_problem[], now mesh_internal.link_problem[]) RETURNS mesh_internal.link_problem[]
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  RETURN ARRAY(SELECT n FROM unnest(now) n
    WHERE NOT EXISTS (SELECT FROM unnest(before) b
      WHERE b.code = n.code AND b.kind = n.kind AND b.api_group = n.api_group AND b.namespace = n.namespace AND b.name = n.name AND b.message = n.message));
END $$;

-- keys_of returns one link of each resource, for its key.
CREATE OR REPLACE FUNCTION mesh_internal.keys_of(links mesh_internal.links[]) RETURNS mesh_internal.links[]
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  RETURN ARRAY(SELECT DISTINCT ON (l.kind, l.api_group, l.namespace, l.name) l FROM unnest(links) l);
END $$;

-- replace_links replaces rows of mesh_internal.links.
CREATE OR REPLACE FUNCTION mesh_internal.replace_links(gone mesh_internal.links[], come mesh_internal.links[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM mesh_internal.links l USING unnest(gone) g
    WHERE (l.name, l.namespace, l.kind, l.api_group, l.role, l.target, l.part, l.path) = (g.name, g.namespace, g.kind, g.api_group, g.role, g.target, g.part, g.path);
  INSERT INTO mesh_internal.links SELECT * FROM unnest(come);
END $$;

-- relink_few puts changes into mesh_internal.links and returns the problems that they make. Most
-- changes make none; only if there are some is it worth looking at the state before.
CREATE OR REPLACE FUNCTION mesh_internal.relink_few(changed mesh_internal.changes[]) RETURNS mesh_internal.link_problem[]
LANGUAGE plpgsql AS $$
DECLARE
  stored   mesh_internal.links[] := ARRAY(SELECT l FROM unnest(changed) c JOIN mesh_internal.links l USING (name, namespace, kind, api_group));
  fresh    mesh_internal.links[] := ARRAY(SELECT (c.kind, c.api_group, c.namespace, c.name, l.role, l.target, l.part, l.port, l.scope, l.detail, l.path)::mesh_internal.links
    FROM unnest(changed) c, mesh_internal.links_of(c.kind, c.api_group, c.namespace, c.name, c.after_spec, c.after_labels) l WHERE l.target IS NOT NULL); -- null names nothing
  gone     mesh_internal.links[] := ARRAY(SELECT s FROM unnest(stored) s EXCEPT SELECT f FROM unnest(fresh) f);
  come     mesh_internal.links[] := ARRAY(SELECT f FROM unnest(fresh) f EXCEPT SELECT s FROM unnest(stored) s);
  suspects mesh_internal.links[];
  before   mesh_internal.link_problem[];
  now      mesh_internal.link_problem[];
BEGIN
  IF gone = '{}' AND come = '{}' THEN
    RETURN NULL;
  END IF;
  suspects := mesh_internal.keys_of(fresh || ARRAY(SELECT r FROM mesh_internal.referrers(gone) r));
  PERFORM mesh_internal.replace_links(gone, come);
  now := mesh_internal.problems_among(suspects);
  IF now = '{}' OR stored = '{}' THEN
    RETURN now;
  END IF;
  PERFORM mesh_internal.replace_links(come, gone);
  before := mesh_internal.problems_among(suspects);
  PERFORM mesh_internal.replace_links(gone, come);
  RETURN mesh_internal.new_problems(before, now);
END $$;

-- relink_many does the same for a transaction with many changes, at once. Kinds with very many
-- resources are read without a call of links_of for each.
CREATE OR REPLACE FUNCTION mesh_internal.relink_many(of bigint) RETURNS mesh_internal.link_problem[]
LANGUAGE plpgsql SET enable_hashjoin = on SET enable_mergejoin = on SET enable_seqscan = on AS $$
DECLARE
  before mesh_internal.link_problem[] := mesh_internal.all_problems();
BEGIN
  DELETE FROM mesh_internal.links l USING mesh_internal.changes c
    WHERE c.transaction_id = of AND l.name = c.name AND l.namespace = c.namespace AND l.kind = c.kind AND l.api_group = c.api_group;
  INSERT INTO mesh_internal.links SELECT * FROM (
    SELECT c.kind, c.api_group, c.namespace, c.name, l.* FROM mesh_internal.changes c, mesh_internal.links_of_virtual_service(c.namespace, c.after_spec) l
      WHERE c.transaction_id = of AND c.after_spec IS NOT NULL AND c.kind = 'VirtualService'
    UNION ALL
    SELECT c.kind, c.api_group, c.namespace, c.name, l.* FROM mesh_internal.changes c, mesh_internal.names_in_virtual_service(c.namespace, c.after_spec) l
      WHERE c.transaction_id = of AND c.after_spec IS NOT NULL AND c.kind = 'VirtualService'
    UNION ALL
    SELECT c.kind, c.api_group, c.namespace, c.name, l.* FROM mesh_internal.changes c, mesh_internal.links_of_destination_rule(c.namespace, c.after_spec) l
      WHERE c.transaction_id = of AND c.after_spec IS NOT NULL AND c.kind = 'DestinationRule'
    UNION ALL
    SELECT c.kind, c.api_group, c.namespace, c.name, l.* FROM mesh_internal.changes c, mesh_internal.names_in_destination_rule(c.namespace, c.after_spec) l
      WHERE c.transaction_id = of AND c.after_spec IS NOT NULL AND c.kind = 'DestinationRule'
    UNION ALL
    SELECT c.kind, c.api_group, c.namespace, c.name, l.* FROM mesh_internal.changes c, mesh_internal.links_of_service_entry(c.namespace, c.after_spec, c.after_labels) l
      WHERE c.transaction_id = of AND c.after_spec IS NOT NULL AND c.kind = 'ServiceEntry'
    UNION ALL
    SELECT c.kind, c.api_group, c.namespace, c.name, l.* FROM mesh_internal.changes c, mesh_internal.links_of_key(c.kind, c.namespace, c.name, c.after_spec) l
      WHERE c.transaction_id = of AND c.after_spec IS NOT NULL AND c.kind IN ('VirtualService', 'ServiceEntry')
    UNION ALL
    SELECT c.kind, c.api_group, c.namespace, c.name, l.* FROM mesh_internal.changes c, mesh_internal.links_of(c.kind, c.api_group, c.namespace, c.name, c.after_spec, c.after_labels) l
      WHERE c.transaction_id = of AND c.kind NOT IN ('VirtualService', 'DestinationRule', 'ServiceEntry', 'WorkloadEntry')) AS named WHERE target IS NOT NULL;
  RETURN mesh_internal.new_problems(before, mesh_internal.all_problems());
END $$;

-- rebuild_links corrects mesh_internal.links where it differs from what the resources say: a newer
-- program may read more in them.
CREATE OR REPLACE FUNCTION mesh_internal.rebuild_links() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  WITH wanted AS MATERIALIZED (
    SELECT r.kind, r.api_group, r.namespace, r.name, l.* FROM mesh.resources r, mesh_internal.links_of(r.kind, r.api_group, r.namespace, r.name, r.spec, r.labels) l WHERE l.target IS NOT NULL
  ), gone AS (
    DELETE FROM mesh_internal.links l USING (SELECT * FROM mesh_internal.links EXCEPT SELECT * FROM wanted) g WHERE l IS NOT DISTINCT FROM g::mesh_internal.links
  )
  INSERT INTO mesh_internal.links SELECT * FROM wanted EXCEPT SELECT * FROM mesh_internal.links;
END $$;

-- strict_severities lists the severities of problems for which the running transaction asks to be refused,
-- by SET LOCAL mesh.strict.
CREATE OR REPLACE FUNCTION mesh_internal.strict_severities() RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
  asked text := lower(coalesce(current_setting('mesh.strict', true), ''));
BEGIN
  CASE asked
    WHEN '', 'off', 'false' THEN RETURN '{}';
    WHEN 'error', 'on', 'true' THEN RETURN '{error}';
    WHEN 'warning' THEN RETURN '{error,warning}';
    ELSE
      RAISE invalid_parameter_value USING MESSAGE = format('mesh.strict is %L', asked), HINT = 'write error, to have problems of that severity refused (on and true are the same); warning, for both severities; or off';
  END CASE;
END $$;

-- refused_among returns the problems of strict namespaces, and those that a strict transaction is
-- refused for.
CREATE OR REPLACE FUNCTION mesh_internal.refused_among(problems mesh_internal.link_problem[]) RETURNS mesh_internal.link_problem[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
  asked   text[] := mesh_internal.strict_severities();
  refused mesh_internal.link_problem[] := ARRAY(SELECT f FROM unnest(problems) f
    WHERE f.severity = ANY (asked)
      OR f.namespace IN (SELECT n FROM (SELECT DISTINCT namespace FROM unnest(problems)) AS names (n) WHERE mesh.setting('strict_references', n) = 'on')
      AND f.code NOT IN ('unsupported', 'put-back', 'unreachable-route')); -- which are no references
BEGIN
  RETURN CASE WHEN refused = '{}' OR mesh_internal.does_own_work('adopting') THEN '{}' ELSE refused END;
END $$;

-- tell_problems warns of problems, the first of them in full; or refuses them all if one is in a strict
-- namespace. Of a change that is only tried it tells more, for mesh.problems does not list those later.
CREATE OR REPLACE FUNCTION mesh_internal.tell_problems(problems mesh_internal.link_problem[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  p       mesh_internal.link_problem;
  most    CONSTANT int := CASE current_setting('mesh.only_tried', true) WHEN 'on' THEN 200 ELSE 10 END;
  refused mesh_internal.link_problem[] := mesh_internal.refused_among(problems);
  shown   mesh_internal.link_problem[] := ARRAY(SELECT f FROM unnest(problems) f
    WHERE (SELECT mesh_internal.shows_all()) OR f.namespace = ANY ((SELECT mesh_internal.shown_namespaces())::text[]) ORDER BY f.severity, f.kind, f.namespace, f.name, f.path);
BEGIN
  IF refused <> '{}' THEN
    PERFORM mesh_internal.refuse_problems(refused);
  END IF;
  FOREACH p IN ARRAY shown[:most] LOOP
    p := mesh_internal.with_hint(p);
    -- The fields from SCHEMA on are for programs; psql does not show them.
    RAISE WARNING USING ERRCODE = 'MS005', MESSAGE = concat_ws(': ', format('%s %s/%s', p.kind, p.namespace, p.name), nullif(p.path, ''), p.message),
      HINT = coalesce(p.hint, 'see mesh.problems'), SCHEMA = p.namespace, TABLE = p.name, COLUMN = p.path,
      DATATYPE = p.kind || '.' || p.api_group, CONSTRAINT = p.severity || ' ' || p.code;
  END LOOP;
  IF cardinality(shown) > most THEN
    RAISE WARNING USING ERRCODE = 'MS005', MESSAGE = format('and %s more problems', cardinality(shown) - most), HINT = 'see mesh.problems';
  END IF;
END $$;

-- with_hint finds a problem again, with its hint.
CREATE OR REPLACE FUNCTION mesh_internal.with_hint(p mesh_internal.link_problem) RETURNS mesh_internal.link_problem
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF p.hint IS NOT NULL THEN
    RETURN p;
  END IF;
  p.hint := (SELECT f.hint FROM mesh_internal.link_problems_of(p.kind, p.namespace, p.name) f WHERE f.api_group = p.api_group AND f.code = p.code AND f.path = p.path LIMIT 1);
  RETURN p;
END $$;

-- as_told returns a problem for the caller, with its hint: without the resource, if the caller may
-- not read that.
CREATE OR REPLACE FUNCTION mesh_internal.as_told(p mesh_internal.link_problem) RETURNS mesh_internal.link_problem
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF mesh_internal.shows_all() OR p.namespace = ANY (mesh_internal.shown_namespaces()) THEN
    RETURN mesh_internal.with_hint(p);
  END IF;
  RETURN (NULL, NULL, NULL, NULL, NULL, NULL, '',
    'a resource of a namespace that you cannot read depends on what this changes', 'ask the owner of the mesh')::mesh_internal.link_problem;
END $$;

-- refuse_problems names resources only to those who may read them.
CREATE OR REPLACE FUNCTION mesh_internal.refuse_problems(refused mesh_internal.link_problem[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  p     mesh_internal.link_problem;
  list  jsonb := '[]';
  words text[] := '{}';
  by_itself CONSTANT boolean := EXISTS (SELECT FROM unnest(refused) r WHERE r.severity = ANY (mesh_internal.strict_severities()));
BEGIN
  FOREACH p IN ARRAY refused[:20] LOOP
    p := mesh_internal.as_told(p);
    words := words || concat_ws(': ', p.kind || ' ' || p.namespace || '/' || p.name, nullif(p.path, ''), p.message);
    list := list || jsonb_strip_nulls(jsonb_build_object('kind', p.kind, 'namespace', p.namespace, 'name', p.name,
      'path', nullif(p.path, ''), 'reason', p.message, 'hint', p.hint));
  END LOOP;
  RAISE foreign_key_violation USING MESSAGE = mesh_internal.in_one_sentence(words, cardinality(refused)), DETAIL = list,
    HINT = format('%s (%s)', coalesce(list #>> '{0,hint}', 'correct it in the same transaction'), CASE WHEN by_itself THEN format('mesh.strict is %L', current_setting('mesh.strict')) ELSE 'strict_references is on' END),
    SCHEMA = 'mesh', TABLE = 'resources', CONSTRAINT = CASE WHEN by_itself THEN 'no_new_problems' ELSE 'references_are_whole' END;
END $$;

-- put_links_back undoes what the transaction did to mesh_internal.links, so that it can be examined
-- again.
CREATE OR REPLACE FUNCTION mesh_internal.put_links_back(of bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM mesh_internal.links l USING mesh_internal.changes c
    WHERE c.transaction_id = of AND l.name = c.name AND l.namespace = c.namespace AND l.kind = c.kind AND l.api_group = c.api_group;
  INSERT INTO mesh_internal.links
    SELECT c.kind, c.api_group, c.namespace, c.name, l.* FROM mesh_internal.changes c, mesh_internal.links_of(c.kind, c.api_group, c.namespace, c.name, c.before_spec, c.before_labels) l
    WHERE c.transaction_id = of AND c.before_spec IS NOT NULL;
END $$;

-- problems_made puts the changes of a transaction into mesh_internal.links, and returns the problems
-- that they make. If there are more than 100 it takes them all, whatever is in the array.
CREATE OR REPLACE FUNCTION mesh_internal.problems_made(of bigint, secrets boolean, changed mesh_internal.changes[]) RETURNS mesh_internal.link_problem[]
LANGUAGE plpgsql AS $$
DECLARE
  problems mesh_internal.link_problem[] := '{}';
BEGIN
  IF changed <> '{}' THEN
    problems := coalesce(CASE WHEN cardinality(changed) > 100 THEN mesh_internal.relink_many(of) ELSE mesh_internal.relink_few(changed) END, '{}') || mesh_internal.new_unsupported(of);
  END IF;
  IF secrets THEN
    problems := problems || mesh_internal.new_problems(problems, mesh_internal.credentials_broken(of));
  END IF;
  RETURN problems;
END $$;

-- examine_references is called at commit, before the transaction gets its number. If a namespace or the
-- transaction is strict, a change of links waits here for earlier commits, so that two transactions cannot
-- together break what each alone would leave whole. If the transaction goes on it does not wait,
-- because others would then wait until its end; it is examined again at its end, because others
-- have committed since. Its size tells.
CREATE OR REPLACE FUNCTION mesh_internal.examine_references(of bigint, goes_on boolean) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  changed  mesh_internal.changes[] := ARRAY(SELECT c FROM mesh_internal.running_transaction t, mesh_internal.changed_links(t.id) c
    WHERE t.id = of LIMIT 101); -- the running transaction's, whatever is asked for
  t        mesh_internal.running_transaction := (SELECT t FROM mesh_internal.running_transaction t WHERE t.id = of);
  asked    text[] := mesh_internal.strict_severities(); -- which refuses what it cannot be, whatever is found
  problems mesh_internal.link_problem[] := mesh_internal.new_unreachable(t.id);
BEGIN
  IF changed = '{}' AND t.secrets IS NOT true THEN
    IF problems <> '{}' THEN
      PERFORM mesh_internal.tell_problems(problems);
    END IF;
    RETURN;
  END IF;
  IF goes_on THEN
    UPDATE mesh_internal.transactions SET size = 1 WHERE id = t.id;
  ELSIF asked <> '{}' OR EXISTS (SELECT FROM mesh.settings s WHERE s.name = 'strict_references' AND s.value = 'on') THEN
    PERFORM mesh_internal.lock_numbering();
    IF t.size > 0 THEN
      PERFORM mesh_internal.put_links_back(of);
    END IF;
  END IF;
  problems := problems || mesh_internal.problems_made(t.id, t.secrets, changed);
  IF problems <> '{}' THEN
    PERFORM mesh_internal.tell_problems(problems);
  END IF;
END $$;

-- examine_change returns what a commit of the running transaction would be told, for those who do
-- not mean to commit.
CREATE OR REPLACE FUNCTION mesh_internal.examine_change(of bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM set_config('mesh.only_tried', 'on', true);
  IF mesh_internal.is_limited() THEN
    PERFORM mesh_internal.check_quotas(t.id), mesh_internal.refuse_foreign(t.id), mesh_internal.count_written(t.id) FROM mesh_internal.running_transaction t WHERE t.id = of;
  END IF;
  PERFORM mesh_internal.examine_references(of, goes_on => true);
  PERFORM mesh_internal.tell_problems(o) FROM mesh_internal.orphans_of(of) o WHERE o <> '{}';
END $$;

COMMENT ON FUNCTION mesh_internal.examine_change IS 'Internal.';

-- This code may read more in specs than the code that it replaces.
DO $$ BEGIN PERFORM mesh_internal.rebuild_links(); END $$;
