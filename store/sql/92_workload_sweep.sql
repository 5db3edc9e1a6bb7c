-- Machines that are gone for longer than a grace period lose their entries.

-- watch_workloads moves the clock by step milliseconds, which is how long the calling server has
-- seen it stand, by a clock that nobody sets. So it never runs faster than time, however many
-- servers watch. Without a step, or if another server has moved the clock, it only returns it. It
-- also ends sessions that were not refreshed for the time of a lease.
CREATE OR REPLACE FUNCTION mesh_internal.watch_workloads(seen bigint, step bigint, lease bigint, OUT beat bigint, OUT moved boolean, OUT idle boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  new_uptime bigint;
BEGIN
  PERFORM mesh_internal.require_server('watch machines');
  idle := NOT EXISTS (SELECT FROM mesh_internal.workload_sessions);
  IF step > 0 AND NOT idle THEN
    UPDATE mesh_internal.workload_clock c SET uptime = c.uptime + step, beat = c.beat + 1 WHERE c.one AND c.beat = seen RETURNING c.uptime, c.beat INTO new_uptime, beat;
  END IF;
  moved := beat IS NOT NULL;
  IF NOT moved THEN
    beat := (SELECT c.beat FROM mesh_internal.workload_clock c WHERE c.one);
    RETURN;
  END IF;
  UPDATE mesh_internal.workload_sessions s SET ended = new_uptime, ended_at = now()
    WHERE s.id IN (SELECT o.id FROM mesh_internal.workload_sessions o WHERE o.ended IS NULL AND o.refreshed + lease < new_uptime FOR UPDATE SKIP LOCKED);
  DELETE FROM mesh_internal.workload_sessions s WHERE s.ended IS NOT NULL AND NOT EXISTS (SELECT FROM mesh_internal.workload_instances i WHERE i.session = s.id);
END $$;

COMMENT ON FUNCTION mesh_internal.watch_workloads IS 'Internal. Servers watch over machines by it.';

-- gone_workloads returns the instances that have been gone for the grace period or longer.
CREATE OR REPLACE FUNCTION mesh_internal.gone_workloads(grace bigint) RETURNS SETOF mesh_internal.workload_instances
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT i.* FROM mesh_internal.workload_instances i WHERE i.gone <= (SELECT c.uptime FROM mesh_internal.workload_clock c WHERE c.one) - grace
  UNION ALL
  SELECT i.* FROM mesh_internal.workload_sessions s JOIN mesh_internal.workload_instances i ON i.session = s.id AND i.gone IS NULL
    WHERE s.ended <= (SELECT c.uptime FROM mesh_internal.workload_clock c WHERE c.one) - grace
$$;

-- remove_gone_workloads removes a batch of them, with their entries, and returns how many.
CREATE OR REPLACE FUNCTION mesh_internal.remove_gone_workloads(grace bigint, at_most int) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  due mesh_internal.workload_instances[];
BEGIN
  PERFORM mesh_internal.require_server('remove machines that are gone');
  due := ARRAY(SELECT g FROM mesh_internal.gone_workloads(grace) g LIMIT at_most);
  IF due = '{}' THEN
    RETURN 0;
  END IF;
  PERFORM mesh_internal.lock_workload_groups(array_agg(d.namespace), array_agg(d.workload_group)) FROM unnest(due) d;
  due := ARRAY(SELECT g FROM mesh_internal.gone_workloads(grace) g, unnest(due) d -- as they are by now
    WHERE (g.namespace, g.workload_group, g.machine) = (d.namespace, d.workload_group, d.machine));
  PERFORM mesh_internal.remove_workloads(due);
  RETURN cardinality(due);
END $$;

COMMENT ON FUNCTION mesh_internal.remove_gone_workloads IS 'Internal. Servers watch over machines by it.';

-- remove_workloads removes instances and their entries. The groups are locked.
CREATE OR REPLACE FUNCTION mesh_internal.remove_workloads(due mesh_internal.workload_instances[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM set_config('mesh.registering', (SELECT secret FROM mesh_internal.installation)::text, true);
  DELETE FROM mesh_internal.workload_instances i USING unnest(due) d WHERE (i.namespace, i.workload_group, i.machine) = (d.namespace, d.workload_group, d.machine);
  PERFORM mesh_internal.write_workload_entries(array_agg(d.namespace), array_agg(d.slot)) FROM unnest(due) d;
END $$;

-- remove_orphaned_workloads removes entries of unknown machines, which came around the triggers,
-- and returns how many.
CREATE OR REPLACE FUNCTION mesh_internal.remove_orphaned_workloads() RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  namespaces text[];
  names      text[];
BEGIN
  PERFORM mesh_internal.require_server('remove entries of machines');
  SELECT array_agg(r.namespace), array_agg(r.name) INTO namespaces, names FROM mesh.resources r
    WHERE r.kind = 'WorkloadEntry' AND r.api_group = 'networking.istio.io' AND r.annotations ? 'mesh.pgmesh.io/machine'
      AND NOT EXISTS (SELECT FROM mesh_internal.workload_instances i WHERE i.namespace = r.namespace AND i.entry = r.name);
  IF names IS NULL THEN
    RETURN 0;
  END IF;
  PERFORM mesh_internal.lock_workload_groups(array_agg(r.namespace), array_agg(r.annotations ->> 'istio.io/autoRegistrationGroup'))
    FROM unnest(namespaces, names) AS u (namespace, name) JOIN mesh.resources r ON r.kind = 'WorkloadEntry' AND r.api_group = 'networking.istio.io' AND r.namespace = u.namespace AND r.name = u.name;
  PERFORM set_config('mesh.registering', (SELECT secret FROM mesh_internal.installation)::text, true);
  PERFORM mesh_internal.write_workload_entries(namespaces, names);
  RETURN cardinality(names);
END $$;

COMMENT ON FUNCTION mesh_internal.remove_orphaned_workloads IS 'Internal. Servers watch over machines by it.';
