-- What registries have, for people who ask in SQL. One server of those that read a registry mirrors
-- it here: the one that claimed it first, for as long as its session lasts as a keeper (see
-- 94_rollout.sql). Proxies are served from what servers have read, never from here. So nothing of it
-- is a revision, and nobody is notified.

-- claim_registry makes a keeper the one that mirrors a registry, and reports whether it is. A server
-- that has not read the registry leaves it to one that has.
CREATE OR REPLACE FUNCTION mesh_internal.claim_registry(keeper integer, registry text, rank integer, whole boolean) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  had mesh_internal.registries;
BEGIN
  PERFORM mesh_internal.require_server('mirror registries');
  SELECT * INTO had FROM mesh_internal.registries r WHERE r.name = claim_registry.registry;
  IF had.keeper = ANY (mesh_internal.live_keepers()) AND (had.whole OR NOT claim_registry.whole OR had.keeper = claim_registry.keeper) THEN
    RETURN had.keeper = claim_registry.keeper;
  END IF;
  INSERT INTO mesh_internal.registries (name, rank, server) VALUES (claim_registry.registry, claim_registry.rank, '') ON CONFLICT ON CONSTRAINT registries_pkey DO NOTHING;
  SELECT * INTO had FROM mesh_internal.registries r WHERE r.name = claim_registry.registry FOR UPDATE;
  IF had.keeper = ANY (mesh_internal.live_keepers()) AND (had.whole OR NOT claim_registry.whole) THEN -- another was quicker
    RETURN had.keeper = claim_registry.keeper;
  END IF;
  UPDATE mesh_internal.registries r SET keeper = k.id, server = k.server, rank = claim_registry.rank, whole = claim_registry.whole, since = now(), ended = NULL
    FROM mesh_internal.report_keepers k WHERE r.name = claim_registry.registry AND k.id = claim_registry.keeper;
  RETURN FOUND;
END $$;

COMMENT ON FUNCTION mesh_internal.claim_registry IS 'Internal. Servers mirror registries by it.';

-- mirrored_entries lists so many entries of a registry after one, with the version of each.
CREATE OR REPLACE FUNCTION mesh_internal.mirrored_entries(registry text, after_kind text, after_group text, after_namespace text, after_name text, entries integer)
RETURNS TABLE (kind text, api_group text, namespace text, name text, version text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_sort = off AS $$
#variable_conflict use_column
BEGIN
  PERFORM mesh_internal.require_server('mirror registries');
  RETURN QUERY SELECT e.kind, e.api_group, e.namespace, e.name, e.version FROM mesh_internal.registry_entries e
    WHERE e.registry = $1 AND (e.kind, e.api_group, e.namespace, e.name) > ($2, $3, $4, $5) ORDER BY e.registry, e.kind, e.api_group, e.namespace, e.name LIMIT $6;
END $$;

COMMENT ON FUNCTION mesh_internal.mirrored_entries IS 'Internal. Servers mirror registries by it.';

-- links_of_entry returns what an entry says of others, as links_of does for the mesh's own. Of
-- services it is that they are there, under which hosts.
CREATE OR REPLACE FUNCTION mesh_internal.links_of_entry(e mesh_internal.registry_entries) RETURNS SETOF mesh_internal.registry_links
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN QUERY SELECT e.registry, e.kind, e.api_group, e.namespace, e.name, l.* FROM mesh_internal.links_of(e.kind, e.api_group, e.namespace, e.name, e.spec, e.labels) l
    WHERE l.target IS NOT NULL AND l.role <> 'address';
END $$;

-- workloads_of_entry returns the labels of the workloads in an entry.
CREATE OR REPLACE FUNCTION mesh_internal.workloads_of_entry(e mesh_internal.registry_entries) RETURNS SETOF mesh_internal.registry_workloads
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF e.api_group = 'networking.istio.io' AND e.kind = 'ServiceEntry' THEN
    RETURN QUERY SELECT DISTINCT e.registry, e.kind, e.api_group, e.namespace, e.name, mesh_internal.with_place(w.labels, w.locality, w.network)
      FROM (SELECT DISTINCT mesh_internal.holder_of(w -> 'labels') AS labels, w ->> 'locality' AS locality, w ->> 'network' AS network FROM jsonb_path_query(e.spec -> 'endpoints', '$[*]') w) w
      WHERE w.labels <> '{}' OR w.locality <> '' OR w.network <> '';
  ELSIF e.api_group = 'networking.istio.io' AND e.kind = 'WorkloadEntry' THEN
    RETURN QUERY SELECT e.registry, e.kind, e.api_group, e.namespace, e.name, mesh_internal.with_place(mesh_internal.holder_of(e.spec -> 'labels') || e.labels, e.spec ->> 'locality', e.spec ->> 'network');
  END IF;
END $$;

-- relink_entries brings the links and workloads of entries up to date. Most changes of a registry,
-- such as a failing health check, change none, and write none.
CREATE OR REPLACE FUNCTION mesh_internal.relink_entries(entries mesh_internal.registry_entries[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
  had_links     mesh_internal.registry_links[] := ARRAY(SELECT l FROM unnest(entries) e JOIN mesh_internal.registry_links l USING (name, namespace, kind, api_group, registry));
  has_links     mesh_internal.registry_links[] := ARRAY(SELECT l FROM unnest(entries) e, mesh_internal.links_of_entry(e) l);
  had_workloads mesh_internal.registry_workloads[] := ARRAY(SELECT w FROM unnest(entries) e JOIN mesh_internal.registry_workloads w USING (name, namespace, kind, api_group, registry));
  has_workloads mesh_internal.registry_workloads[] := ARRAY(SELECT w FROM unnest(entries) e, mesh_internal.workloads_of_entry(e) w);
BEGIN
  DELETE FROM mesh_internal.registry_links l USING (SELECT * FROM unnest(had_links) EXCEPT SELECT * FROM unnest(has_links)) g
    WHERE (l.name, l.namespace, l.kind, l.api_group, l.registry, l.role, l.target, l.part, l.path) = (g.name, g.namespace, g.kind, g.api_group, g.registry, g.role, g.target, g.part, g.path);
  INSERT INTO mesh_internal.registry_links SELECT * FROM unnest(has_links) EXCEPT SELECT * FROM unnest(had_links);
  DELETE FROM mesh_internal.registry_workloads w USING (SELECT * FROM unnest(had_workloads) EXCEPT SELECT * FROM unnest(has_workloads)) g
    WHERE (w.name, w.namespace, w.kind, w.api_group, w.registry, w.labels) = (g.name, g.namespace, g.kind, g.api_group, g.registry, g.labels);
  INSERT INTO mesh_internal.registry_workloads SELECT * FROM unnest(has_workloads) EXCEPT SELECT * FROM unnest(had_workloads);
END $$;

-- take_entries writes entries, those of the same version excepted, and removes others. The tables'
-- statistics know nothing of a registry that was just begun, so it looks each up by its key.
CREATE OR REPLACE FUNCTION mesh_internal.take_entries(registry text, entries jsonb, gone jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
  absent  mesh_internal.registry_entries;
  written mesh_internal.registry_entries[];
BEGIN
  WITH w AS (
    INSERT INTO mesh_internal.registry_entries AS e (registry, kind, api_group, namespace, name, version, labels, annotations, spec, created_at)
      SELECT take_entries.registry, n.kind, n.api_group, n.namespace, n.name, n.version, n.labels, n.annotations, n.spec, n.created_at
      FROM jsonb_populate_recordset(NULL::mesh_internal.registry_entries, entries) n
      ON CONFLICT ON CONSTRAINT registry_entries_pkey DO UPDATE SET version = EXCLUDED.version, changed = now(), labels = EXCLUDED.labels, annotations = EXCLUDED.annotations,
        spec = EXCLUDED.spec, created_at = EXCLUDED.created_at
      WHERE e.version <> EXCLUDED.version RETURNING e)
  SELECT coalesce(array_agg(w.e), '{}') INTO written FROM w;
  PERFORM mesh_internal.relink_entries(written);
  FOR absent IN SELECT * FROM jsonb_populate_recordset(NULL::mesh_internal.registry_entries, gone) LOOP
    DELETE FROM mesh_internal.registry_entries e
      WHERE (e.name, e.namespace, e.kind, e.api_group) = (absent.name, absent.namespace, absent.kind, absent.api_group) AND e.registry = take_entries.registry;
  END LOOP;
END $$;

-- mirror_registry takes what has changed of a registry: how it is, entries, and which are gone. It
-- reports whether the keeper is still the one that mirrors it, and writes nothing if not.
CREATE OR REPLACE FUNCTION mesh_internal.mirror_registry(keeper integer, registry text, whole boolean, stale timestamptz, reason text, bad jsonb, bad_all integer, entries jsonb, gone jsonb)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  had mesh_internal.registries;
BEGIN
  PERFORM mesh_internal.require_server('mirror registries');
  SELECT * INTO had FROM mesh_internal.registries r WHERE r.name = mirror_registry.registry AND r.keeper = mirror_registry.keeper FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  IF (had.whole, had.stale, had.reason, had.bad, had.bad_all) IS DISTINCT FROM
      (mirror_registry.whole, mirror_registry.stale, mirror_registry.reason, mirror_registry.bad, mirror_registry.bad_all) THEN
    UPDATE mesh_internal.registries r SET whole = mirror_registry.whole, stale = mirror_registry.stale, reason = mirror_registry.reason,
        bad = mirror_registry.bad, bad_all = mirror_registry.bad_all
      WHERE r.name = mirror_registry.registry;
  END IF;
  IF entries <> '[]' OR gone <> '[]' THEN
    PERFORM mesh_internal.take_entries(registry, entries, gone);
  END IF;
  RETURN true;
END $$;

COMMENT ON FUNCTION mesh_internal.mirror_registry IS 'Internal. Servers mirror registries by it.';

-- leave_registries ends what a keeper mirrors: others may go on with it.
CREATE OR REPLACE FUNCTION mesh_internal.leave_registries(keeper integer) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM mesh_internal.require_server('mirror registries');
  UPDATE mesh_internal.registries r SET keeper = NULL, ended = now() WHERE r.keeper = leave_registries.keeper;
END $$;

COMMENT ON FUNCTION mesh_internal.leave_registries IS 'Internal. Servers mirror registries by it.';

-- sweep_registries notes which registries nobody mirrors any more, and removes what nobody has
-- mirrored for so long, some thousands of entries at a time. It returns how many rows it removed.
CREATE OR REPLACE FUNCTION mesh_internal.sweep_registries(age interval) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  removed bigint;
  emptied bigint;
BEGIN
  PERFORM mesh_internal.require_server('mirror registries');
  UPDATE mesh_internal.registries r SET keeper = NULL, ended = now() WHERE r.name IN (
    SELECT o.name FROM mesh_internal.registries o
    WHERE o.ended IS NULL AND (o.keeper IS NULL OR o.keeper <> ALL ((SELECT mesh_internal.live_keepers())::int[])) FOR UPDATE SKIP LOCKED);
  DELETE FROM mesh_internal.registry_entries e USING (
      SELECT o.registry, o.name, o.namespace, o.kind, o.api_group FROM mesh_internal.registry_entries o JOIN mesh_internal.registries r ON r.name = o.registry
      WHERE r.ended < now() - age LIMIT 5000 FOR UPDATE OF o SKIP LOCKED) due
    WHERE (e.name, e.namespace, e.kind, e.api_group, e.registry) = (due.name, due.namespace, due.kind, due.api_group, due.registry);
  GET DIAGNOSTICS removed = ROW_COUNT;
  DELETE FROM mesh_internal.registries r WHERE r.name IN (SELECT o.name FROM mesh_internal.registries o WHERE o.ended < now() - age
    AND NOT EXISTS (SELECT FROM mesh_internal.registry_entries e WHERE e.registry = o.name) FOR UPDATE SKIP LOCKED);
  GET DIAGNOSTICS emptied = ROW_COUNT;
  RETURN removed + emptied;
END $$;

COMMENT ON FUNCTION mesh_internal.sweep_registries IS 'Internal. Servers mirror registries by it.';

-- This code may read more in specs than the code that it replaces.
DO $$ BEGIN PERFORM mesh_internal.relink_entries(ARRAY(SELECT e FROM mesh_internal.registry_entries e)); END $$;
