-- Machines register their services. The template of a WorkloadGroup and what the machine says of
-- itself make a WorkloadEntry. mesh_internal.workload_instances has the machines; the entries
-- follow from these and the groups, whoever changes which. Everybody who changes them holds the
-- lock of the group, so that nobody relies on what another is about to change.

-- lock_workload_groups locks some groups until the transaction ends, in a fixed order.
CREATE OR REPLACE FUNCTION mesh_internal.lock_workload_groups(namespaces text[], names text[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  slots int[] := ARRAY(SELECT DISTINCT (hashtextextended(u.namespace || '/' || u.name, 0) & 1023)::int FROM unnest(namespaces, names) AS u (namespace, name));
BEGIN
  PERFORM FROM mesh_internal.workload_group_locks l WHERE l.slot = ANY (slots) ORDER BY l.slot FOR UPDATE;
END $$;

-- workload_group returns the spec of a group; NULL if there is no such group.
CREATE OR REPLACE FUNCTION mesh_internal.workload_group(namespace text, name text) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT r.spec FROM mesh.resources r
  WHERE r.kind = 'WorkloadGroup' AND r.api_group = 'networking.istio.io' AND r.namespace = workload_group.namespace AND r.name = workload_group.name
$$;

-- account_in returns the service account of a group's machines.
CREATE OR REPLACE FUNCTION mesh_internal.account_in(spec jsonb) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE WHEN spec IS NOT NULL THEN coalesce(nullif(mesh_internal.field_of(spec, '{template,serviceAccount}', 'service_account') #>> '{}', ''), 'default') END
$$;

-- slot_of returns the name of a machine's entry: GROUP-ADDRESS, and -NETWORK if there is one.
-- Characters that a name cannot have are left out; if so, or if the name is too long, a hash tells
-- it apart.
CREATE OR REPLACE FUNCTION mesh_internal.slot_of(workload_group text, address text, network text) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  plain text := concat_ws('-', workload_group, replace(address, ':', '-'), nullif(network, ''));
  safe  text := regexp_replace(lower(plain), '[^-.a-z0-9]+', '-', 'g');
BEGIN
  safe := regexp_replace(regexp_replace(safe, '[-.]*\.[-.]*', '.', 'g'), '[-.]+$', '');
  IF safe = plain AND char_length(safe) <= 253 THEN
    RETURN safe;
  END IF;
  RETURN regexp_replace(left(safe, 240), '[-.]+$', '') || '-' || left(encode(sha256(convert_to(concat_ws(' ', workload_group, address, network), 'UTF8')), 'hex'), 12);
END $$;

CREATE OR REPLACE FUNCTION mesh_internal.slot_in(spec jsonb, i mesh_internal.workload_instances) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE WHEN spec IS NOT NULL THEN mesh_internal.slot_of(i.workload_group, i.address, coalesce(nullif(i.network, ''), spec #>> '{template,network}', '')) END
$$;

-- rendered_workload returns the WorkloadEntry of a machine. What the machine says of itself counts
-- before what the group says of all. An istiod that reads the entry does not know our annotation of
-- health. With Istio's, and without a status of Istio's, it takes the machine for unwell.
CREATE OR REPLACE FUNCTION mesh_internal.rendered_workload(i mesh_internal.workload_instances, workload_group jsonb, OUT spec jsonb, OUT labels jsonb, OUT annotations jsonb)
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  template jsonb := mesh_internal.holder_of(workload_group -> 'template');
  ports    jsonb := mesh_internal.holder_of(template -> 'ports') || i.ports;
BEGIN
  labels := mesh_internal.holder_of(workload_group #> '{metadata,labels}') || mesh_internal.holder_of(template -> 'labels') || i.labels || i.service_labels;
  spec := (template - '{labels,ports,service_account}'::text[]) || jsonb_strip_nulls(jsonb_build_object(
    'address', i.address, 'serviceAccount', i.service_account, 'network', nullif(i.network, ''), 'locality', nullif(i.locality, ''),
    'weight', nullif(i.weight, 0), 'labels', nullif(labels, '{}'), 'ports', nullif(ports, '{}')));
  annotations := mesh_internal.holder_of(workload_group #> '{metadata,annotations}') - mesh_internal.origin_annotations() || jsonb_strip_nulls(jsonb_build_object(
    'istio.io/autoRegistrationGroup', i.workload_group, 'mesh.pgmesh.io/machine', i.machine,
    'mesh.pgmesh.io/health', CASE WHEN i.health <> 'healthy' THEN concat_ws(': ', i.health, CASE WHEN i.health <> 'draining' THEN nullif(i.detail, '') END) END,
    'proxy.istio.io/health-checks-enabled', CASE WHEN i.health <> 'healthy' THEN 'true' END));
END $$;

CREATE OR REPLACE FUNCTION mesh_internal.no_group(namespace text, name text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT format('there is no WorkloadGroup %s/%s: write it, or correct the group in the configuration of the agent', namespace, name)
$$;

CREATE OR REPLACE FUNCTION mesh_internal.wrong_account(namespace text, name text, account text, wanted text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT format('machines of the WorkloadGroup %s/%s have the service account %s, and this one has %s: join with a token for the group, or change template.serviceAccount of the group',
    namespace, name, wanted, CASE account WHEN '' THEN 'none' ELSE account END)
$$;

-- write_workload_entries makes the entries of some names what they have to be, and tells each machine
-- that wants one whether it has it. If several machines have one address, which makes one name, a
-- connected one comes before one that is gone, and the one with the entry before a new one. The
-- groups are locked.
CREATE OR REPLACE FUNCTION mesh_internal.write_workload_entries(namespaces text[], slots text[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
  wanted  record;
  refusal text;
  written mesh.resources;
  due     mesh.resources[] := '{}';
BEGIN
  FOR wanted IN
    WITH named AS (SELECT DISTINCT u.namespace, u.slot FROM unnest(namespaces, slots) AS u (namespace, slot) WHERE u.slot IS NOT NULL),
    candidates AS (
      SELECT i, g.spec AS of_group, mesh_internal.account_in(g.spec) AS account, i.gone IS NULL AND s.ended IS NULL AS here,
        mesh_internal.is_revoked(format('ns/%s/sa/%s', i.namespace, i.service_account), i.enrolment) AS revoked
      FROM named n
        JOIN mesh_internal.workload_instances i ON i.namespace = n.namespace AND i.slot = n.slot AND NOT i.has_left
        JOIN mesh_internal.workload_sessions s ON s.id = i.session
        JOIN mesh.resources g ON g.kind = 'WorkloadGroup' AND g.api_group = 'networking.istio.io' AND g.namespace = i.namespace AND g.name = i.workload_group
    ),
    ranked AS (
      SELECT c.*, first_value(c.i) OVER w AS best, row_number() OVER w AS place FROM candidates c
      WINDOW w AS (PARTITION BY (c.i).namespace, (c.i).slot
        ORDER BY (c.i).service_account = c.account AND NOT c.revoked DESC, c.here DESC, (c.i).entry IS NOT DISTINCT FROM (c.i).slot DESC, (c.i).since, (c.i).workload_group, (c.i).machine)
    )
    SELECT c.i, c.account, (c.i).service_account = c.account AS fits, c.revoked, c.place, c.best, r.name IS NOT NULL AS there, r.annotations ? 'mesh.pgmesh.io/machine' AS registered,
      r.spec, r.labels, r.annotations, e.spec AS new_spec, e.labels AS new_labels, e.annotations AS new_annotations
    FROM ranked c
      CROSS JOIN LATERAL mesh_internal.rendered_workload(c.i, c.of_group) e
      LEFT JOIN mesh.resources r ON r.kind = 'WorkloadEntry' AND r.api_group = 'networking.istio.io' AND r.namespace = (c.i).namespace AND r.name = (c.i).slot
    ORDER BY c.place DESC -- who has an entry no more makes way
  LOOP
    refusal := CASE
      WHEN NOT wanted.fits THEN mesh_internal.wrong_account((wanted.i).namespace, (wanted.i).workload_group, (wanted.i).service_account, wanted.account)
      WHEN wanted.revoked THEN format('the machine was revoked: restore it, mcp-client identity restore %s, or stop its agent',
        CASE WHEN mesh_internal.is_revoked('', (wanted.i).enrolment) THEN (wanted.i).enrolment ELSE (wanted.i).namespace || '/' || (wanted.i).service_account END)
      WHEN wanted.place > 1 THEN format('the machine %s of the WorkloadGroup %s has the address %s%s already: if it is the same machine, keep its state folder or wait until its last life is gone; or give one of them another address',
        (wanted.best).machine, (wanted.best).workload_group, (wanted.i).address, coalesce(' of the network ' || nullif((wanted.i).network, ''), ''))
      WHEN wanted.there AND NOT wanted.registered THEN format('somebody has written a WorkloadEntry %s/%s, which stays as it is: delete or rename that one', (wanted.i).namespace, (wanted.i).slot)
    END;
    PERFORM mesh_internal.tell_instance(wanted.i, refusal);
    IF refusal IS NULL AND (NOT wanted.there OR (wanted.spec, wanted.labels, wanted.annotations) IS DISTINCT FROM (wanted.new_spec, wanted.new_labels, wanted.new_annotations)) THEN
      written.namespace := (wanted.i).namespace;
      written.name := (wanted.i).slot;
      written.spec := wanted.new_spec;
      written.labels := wanted.new_labels;
      written.annotations := wanted.new_annotations;
      due := due || written;
    END IF;
  END LOOP;
  DELETE FROM mesh.resources r USING (SELECT DISTINCT u.namespace, u.slot FROM unnest(namespaces, slots) AS u (namespace, slot)) n
    WHERE r.kind = 'WorkloadEntry' AND r.api_group = 'networking.istio.io' AND r.namespace = n.namespace AND r.name = n.slot
      AND r.annotations ? 'mesh.pgmesh.io/machine'
      AND NOT EXISTS (SELECT FROM mesh_internal.workload_instances i WHERE i.namespace = n.namespace AND i.entry = n.slot);
  PERFORM mesh_internal.write_workloads(due);
END $$;

-- tell_instance records whether a machine has its entry, or why not.
CREATE OR REPLACE FUNCTION mesh_internal.tell_instance(i mesh_internal.workload_instances, refusal text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  has text := CASE WHEN refusal IS NULL THEN i.slot END;
BEGIN
  IF (i.entry, i.refused) IS DISTINCT FROM (has, refusal) THEN
    UPDATE mesh_internal.workload_instances o SET entry = has, refused = refusal
      WHERE o.namespace = i.namespace AND o.workload_group = i.workload_group AND o.machine = i.machine;
  END IF;
END $$;

-- write_workloads writes changed entries. One that breaks the rules is left out, at the expense of
-- its machine alone.
CREATE OR REPLACE FUNCTION mesh_internal.write_workloads(due mesh.resources[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  one     mesh.resources;
  wrong   mesh_internal.problem;
  sound   mesh.resources[] := '{}';
BEGIN
  IF current_setting('mesh.registering', true) <> '' THEN
    due := mesh_internal.without_busy(due);
  END IF;
  IF due = '{}' THEN
    RETURN;
  END IF;
  BEGIN
    PERFORM mesh_internal.upsert_workloads(due);
    RETURN;
  EXCEPTION WHEN check_violation THEN -- looked at one by one
  END;
  FOREACH one IN ARRAY due LOOP
    one.kind := 'WorkloadEntry';
    one.api_group := 'networking.istio.io';
    SELECT p.* INTO wrong FROM mesh_internal.resource_problems(one) p LIMIT 1;
    IF NOT FOUND THEN
      sound := sound || one;
      CONTINUE;
    END IF;
    UPDATE mesh_internal.workload_instances i SET entry = NULL, refused = concat_ws(': ', nullif(wrong.path, ''), wrong.reason) || coalesce(' (' || wrong.hint || ')', '')
      WHERE i.namespace = one.namespace AND i.entry = one.name;
    DELETE FROM mesh.resources r WHERE r.kind = 'WorkloadEntry' AND r.api_group = 'networking.istio.io' AND r.namespace = one.namespace AND r.name = one.name;
  END LOOP;
  PERFORM mesh_internal.upsert_workloads(sound);
END $$;

-- without_busy leaves out entries that somebody is changing, because machines do not wait for
-- people. They stay as they are until they are reported again.
CREATE OR REPLACE FUNCTION mesh_internal.without_busy(due mesh.resources[]) RETURNS mesh.resources[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
  free text[] := ARRAY(SELECT r.namespace || '/' || r.name FROM unnest(due) d
    JOIN mesh.resources r ON r.kind = 'WorkloadEntry' AND r.api_group = 'networking.istio.io' AND r.namespace = d.namespace AND r.name = d.name FOR UPDATE OF r SKIP LOCKED);
  busy text[] := ARRAY(SELECT r.namespace || '/' || r.name FROM unnest(due) d
    JOIN mesh.resources r ON r.kind = 'WorkloadEntry' AND r.api_group = 'networking.istio.io' AND r.namespace = d.namespace AND r.name = d.name
    WHERE r.namespace || '/' || r.name <> ALL (free));
BEGIN
  IF busy = '{}' THEN
    RETURN due;
  END IF;
  UPDATE mesh_internal.workload_instances i SET refused = format('somebody is changing its WorkloadEntry %s/%s, in a transaction that has not ended: it stays as it was until then, and is tried again', i.namespace, i.entry)
    FROM unnest(due) d WHERE i.namespace = d.namespace AND i.entry = d.name AND d.namespace || '/' || d.name = ANY (busy);
  RETURN ARRAY(SELECT d FROM unnest(due) d WHERE d.namespace || '/' || d.name <> ALL (busy));
END $$;

-- upsert_workloads overwrites nothing that people have written, not even since the last look.
CREATE OR REPLACE FUNCTION mesh_internal.upsert_workloads(due mesh.resources[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  written bigint;
BEGIN
  INSERT INTO mesh.resources AS r (kind, api_group, namespace, name, spec, labels, annotations)
    SELECT 'WorkloadEntry', 'networking.istio.io', d.namespace, d.name, d.spec, d.labels, d.annotations FROM unnest(due) d ORDER BY d.namespace, d.name
    ON CONFLICT (kind, api_group, namespace, name) DO UPDATE SET spec = EXCLUDED.spec, labels = EXCLUDED.labels, annotations = EXCLUDED.annotations
      WHERE r.annotations ? 'mesh.pgmesh.io/machine';
  GET DIAGNOSTICS written = ROW_COUNT;
  IF written < cardinality(due) THEN
    RAISE serialization_failure USING MESSAGE = 'somebody has written a WorkloadEntry that a machine is about to have', HINT = 'run the transaction again';
  END IF;
END $$;

-- place_group gives the machines of a group the names that its template makes, and writes
-- everything that this touches. The group is locked.
CREATE OR REPLACE FUNCTION mesh_internal.place_group(namespace text, name text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  spec    jsonb  := mesh_internal.workload_group(namespace, name);
  touched text[] := ARRAY(SELECT DISTINCT i.slot FROM mesh_internal.workload_instances i WHERE i.namespace = place_group.namespace AND i.workload_group = name AND i.slot IS NOT NULL);
BEGIN
  UPDATE mesh_internal.workload_instances i SET slot = mesh_internal.slot_in(spec, i),
      entry = CASE WHEN spec IS NOT NULL AND i.slot = mesh_internal.slot_in(spec, i) THEN i.entry END, refused = CASE WHEN spec IS NULL THEN mesh_internal.no_group(place_group.namespace, place_group.name) END
    WHERE i.namespace = place_group.namespace AND i.workload_group = name AND NOT i.has_left AND i.slot IS DISTINCT FROM mesh_internal.slot_in(spec, i);
  touched := touched || ARRAY(SELECT DISTINCT i.slot FROM mesh_internal.workload_instances i WHERE i.namespace = place_group.namespace AND i.workload_group = name AND i.slot <> ALL (touched));
  PERFORM mesh_internal.write_workload_entries(array_fill(namespace, ARRAY[cardinality(touched)]), touched);
END $$;

-- follow_workloads is called at commit, before the transaction gets its number. The entries of
-- machines follow their groups, and an entry that somebody changed or deleted is put back, of which
-- it tells. It reports whether it had anything to do.
DROP FUNCTION IF EXISTS mesh_internal.follow_workloads(bigint); -- what it was before it could be silent

CREATE OR REPLACE FUNCTION mesh_internal.follow_workloads(of bigint, tells boolean DEFAULT true) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
  namespaces  text[]; -- of the groups that were changed
  names       text[];
  of_entries  text[]; -- namespaces of the entries that machines have, or want
  entries     text[];
  written     mesh_internal.changes[];
BEGIN
  IF current_setting('mesh.registering', true) <> '' AND current_setting('mesh.registering', true) = (SELECT secret FROM mesh_internal.installation)::text THEN
    RETURN false; -- what it writes is as it has to be
  END IF;
  SELECT array_agg(c.namespace), array_agg(c.name) INTO namespaces, names FROM mesh_internal.changes c
    WHERE c.transaction_id = of AND c.kind = 'WorkloadGroup' AND EXISTS (SELECT FROM mesh_internal.workload_instances i WHERE i.namespace = c.namespace AND i.workload_group = c.name);
  SELECT array_agg(c.namespace), array_agg(c.name) INTO of_entries, entries FROM mesh_internal.changes c
    WHERE c.transaction_id = of AND c.kind = 'WorkloadEntry'
      AND (c.before_annotations ? 'mesh.pgmesh.io/machine' OR c.after_annotations ? 'mesh.pgmesh.io/machine'
        OR EXISTS (SELECT FROM mesh_internal.workload_instances i WHERE i.namespace = c.namespace AND i.slot = c.name));
  IF namespaces IS NULL AND entries IS NULL THEN
    RETURN false;
  END IF;
  written := ARRAY(SELECT c FROM mesh_internal.changes c WHERE c.transaction_id = of AND (mesh_internal.is_of_machine(c.kind, c.before_annotations) OR mesh_internal.is_of_machine(c.kind, c.after_annotations)));
  PERFORM mesh_internal.lock_workload_groups(array_agg(g.namespace), array_agg(g.name)) FROM (
    SELECT * FROM unnest(namespaces, names) AS u (namespace, name)
    UNION SELECT i.namespace, i.workload_group FROM unnest(of_entries, entries) AS u (namespace, name) JOIN mesh_internal.workload_instances i ON i.namespace = u.namespace AND i.slot = u.name) g;
  PERFORM mesh_internal.place_group(u.namespace, u.name) FROM unnest(namespaces, names) AS u (namespace, name);
  IF entries IS NOT NULL THEN
    DELETE FROM mesh.resources r USING unnest(of_entries, entries) AS u (namespace, name), mesh_internal.workload_instances i -- written over, and made anew below
      WHERE r.kind = 'WorkloadEntry' AND r.api_group = 'networking.istio.io' AND r.namespace = u.namespace AND r.name = u.name
        AND NOT r.annotations ? 'mesh.pgmesh.io/machine' AND i.namespace = u.namespace AND i.entry = u.name;
    PERFORM mesh_internal.write_workload_entries(of_entries, entries);
  END IF;
  IF tells THEN
    PERFORM mesh_internal.tell_problems(mesh_internal.put_back(written));
  END IF;
  RETURN true;
END $$;

-- put_back returns the entries that are not as they were written.
CREATE OR REPLACE FUNCTION mesh_internal.put_back(written mesh_internal.changes[]) RETURNS mesh_internal.link_problem[]
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(array_agg(('warning', 'put-back', w.kind, w.api_group, w.namespace, w.name, '',
    CASE WHEN r.name IS NULL THEN 'it says that it is of a machine, and there is no such machine: it was left out'
      ELSE format('it is of the machine %s, and was put back as that and the WorkloadGroup %s have it', i.machine, i.workload_group) END,
    CASE WHEN r.name IS NULL THEN 'leave out the annotation mesh.pgmesh.io/machine if it is to stay; machines register by themselves'
      ELSE format('change the WorkloadGroup %s, or the configuration of the agent; mcp-client machines remove takes out a machine that is gone', i.workload_group) END)::mesh_internal.link_problem), '{}')
  FROM unnest(written) w
    LEFT JOIN mesh.resources r ON r.kind = w.kind AND r.api_group = w.api_group AND r.namespace = w.namespace AND r.name = w.name
    LEFT JOIN mesh_internal.workload_instances i ON i.namespace = w.namespace AND i.entry = w.name
  WHERE (r.spec, r.labels, r.annotations) IS DISTINCT FROM (w.after_spec, w.after_labels, w.after_annotations)
$$;

-- A revoked machine is no longer an endpoint, and a restored one is again.
CREATE OR REPLACE FUNCTION mesh_internal.write_entries_of_revoked() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  concerned mesh_internal.workload_instances[] := ARRAY(
    SELECT i FROM new_rows v JOIN mesh_internal.workload_instances i ON i.namespace = v.namespace AND (v.enrolment = i.enrolment OR v.identity = format('ns/%s/sa/%s', i.namespace, i.service_account)));
BEGIN
  IF concerned <> '{}' THEN
    PERFORM set_config('mesh.registering', (SELECT secret FROM mesh_internal.installation)::text, true);
    PERFORM mesh_internal.lock_workload_groups(array_agg(c.namespace), array_agg(c.workload_group)) FROM unnest(concerned) c;
    PERFORM mesh_internal.write_workload_entries(array_agg(c.namespace), array_agg(c.slot)) FROM unnest(concerned) c;
    PERFORM set_config('mesh.registering', '', true);
  END IF;
  RETURN NULL;
END $$;

DROP TRIGGER IF EXISTS entries_of_revoked ON mesh.revocations;
CREATE TRIGGER entries_of_revoked AFTER INSERT ON mesh.revocations
  REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION mesh_internal.write_entries_of_revoked();

DROP TRIGGER IF EXISTS entries_of_restored ON mesh.revocations;
CREATE TRIGGER entries_of_restored AFTER UPDATE ON mesh.revocations
  REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION mesh_internal.write_entries_of_revoked();

-- These were their names in earlier programs.
DROP TRIGGER IF EXISTS settle_revoked ON mesh.revocations;
DROP TRIGGER IF EXISTS settle_restored ON mesh.revocations;
DROP FUNCTION IF EXISTS mesh_internal.settle_revoked();
DROP FUNCTION IF EXISTS mesh_internal.settle_workloads(text[], text[]);
