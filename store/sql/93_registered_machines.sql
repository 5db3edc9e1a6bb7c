-- What people see of machines, and how they remove one.

CREATE OR REPLACE VIEW mesh.registered_machines WITH (security_barrier) AS
  SELECT i.namespace, i.workload_group, i.machine, CASE WHEN i.gone IS NULL AND s.ended IS NULL THEN 'here' ELSE 'gone' END AS state,
    i.entry, i.refused, i.address, i.network, i.locality, i.health, i.detail, i.service_account, i.enrolment,
    i.labels || i.service_labels AS labels, i.ports, i.weight, s.discovery, s.server,
    to_timestamp(i.since / 1e9) AS since, i.registered_at, coalesce(i.gone_at, s.ended_at) AS gone_at
  FROM mesh_internal.workload_instances i JOIN mesh_internal.workload_sessions s ON s.id = i.session
  WHERE NOT i.has_left AND ((SELECT mesh_internal.sees_all()) OR i.namespace = ANY ((SELECT mesh_internal.readable_namespaces())::text[]));

COMMENT ON VIEW mesh.registered_machines IS 'The services that machines have registered, a row for each service of a machine: connected machines, and those gone for less than the grace period.';
COMMENT ON COLUMN mesh.registered_machines.namespace IS 'The namespace of the machine.';
COMMENT ON COLUMN mesh.registered_machines.workload_group IS 'The WorkloadGroup whose template makes its WorkloadEntry.';
COMMENT ON COLUMN mesh.registered_machines.machine IS 'The id of its proxy.';
COMMENT ON COLUMN mesh.registered_machines.state IS 'here: connected; gone: about to be removed unless it comes back.';
COMMENT ON COLUMN mesh.registered_machines.entry IS 'The WorkloadEntry, in the same namespace. If there is none, refused says why.';
COMMENT ON COLUMN mesh.registered_machines.refused IS 'Why the service has no WorkloadEntry; NULL if it has one.';
COMMENT ON COLUMN mesh.registered_machines.address IS 'The address at which the service is reached.';
COMMENT ON COLUMN mesh.registered_machines.network IS 'The network of that address.';
COMMENT ON COLUMN mesh.registered_machines.locality IS 'The locality, as REGION/ZONE/SUBZONE.';
COMMENT ON COLUMN mesh.registered_machines.health IS 'healthy, unhealthy or unknown, by its probe; detail says what is wrong. Or draining: mesh-agent drain has taken the machine out, or it is about to leave. Only healthy services get requests.';
COMMENT ON COLUMN mesh.registered_machines.detail IS 'What the probe found wrong; of a draining machine, when it was drained, and whether connections are left.';
COMMENT ON COLUMN mesh.registered_machines.service_account IS 'The service account of the machine.';
COMMENT ON COLUMN mesh.registered_machines.enrolment IS 'The machine, as in mesh.machines; empty without certificates.';
COMMENT ON COLUMN mesh.registered_machines.labels IS 'The labels of the service, over those of the group.';
COMMENT ON COLUMN mesh.registered_machines.ports IS 'The ports by name, an object of numbers.';
COMMENT ON COLUMN mesh.registered_machines.weight IS 'The weight in load balancing.';
COMMENT ON COLUMN mesh.registered_machines.discovery IS 'The discovery that it is connected to, or last was.';
COMMENT ON COLUMN mesh.registered_machines.server IS 'The mcp-server that told of it.';
COMMENT ON COLUMN mesh.registered_machines.since IS 'When its stream to discovery began, by its own clock.';
COMMENT ON COLUMN mesh.registered_machines.registered_at IS 'When it first registered.';
COMMENT ON COLUMN mesh.registered_machines.gone_at IS 'When the machine went; NULL while it is connected.';

CREATE OR REPLACE VIEW mesh_internal.machine_problems AS
  SELECT 'warning' AS severity, 'machine-refused' AS code, 'Machine' AS kind, 'identity.pgmesh.io' AS api_group, i.namespace, i.machine AS name, '' AS path,
    format('it is not registered for the WorkloadGroup %s: %s', i.workload_group, i.refused) AS message, 'mcp-client machines show tells more' AS hint
  FROM mesh_internal.workload_instances i JOIN mesh_internal.workload_sessions s ON s.id = i.session
  WHERE i.refused IS NOT NULL AND i.gone IS NULL AND s.ended IS NULL;

COMMENT ON VIEW mesh_internal.machine_problems IS 'Internal. Read mesh.problems.';

-- orphans_of returns what a transaction takes from join tokens and from connected machines by deleting
-- their WorkloadGroups.
CREATE OR REPLACE FUNCTION mesh_internal.orphans_of(of bigint) RETURNS mesh_internal.link_problem[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN mesh_internal.tokens_orphaned(of) || ARRAY(
    SELECT ('warning', 'machine-refused', c.kind, c.api_group, c.namespace, c.name, '',
      CASE WHEN count(*) = 1 THEN format('the machine %s is registered for it', min(i.machine)) ELSE format('%s machines are registered for it, such as %s', count(*), min(i.machine)) END
        || ', and gets no requests any more', 'drain machines before (mesh-agent drain); the group written again takes them back')::mesh_internal.link_problem
    FROM mesh_internal.changes c JOIN mesh_internal.workload_instances i ON i.namespace = c.namespace AND i.workload_group = c.name
      JOIN mesh_internal.workload_sessions s ON s.id = i.session
    WHERE c.transaction_id = of AND c.kind = 'WorkloadGroup' AND c.after_spec IS NULL AND i.gone IS NULL AND NOT i.has_left AND s.ended IS NULL
    GROUP BY c.kind, c.api_group, c.namespace, c.name);
END $$;

-- remove_machine removes a machine that is gone, or one of its services, at once; with force also a
-- connected one, which comes back if it is reported again. It returns how many services went.
CREATE OR REPLACE FUNCTION mesh.remove_machine(namespace text, machine text, workload_group text DEFAULT NULL, force boolean DEFAULT false) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  due   mesh_internal.workload_instances[];
  alive text;
BEGIN
  PERFORM mesh_internal.require_write(remove_machine.namespace);
  PERFORM mesh_internal.lock_workload_groups(array_agg(i.namespace), array_agg(i.workload_group)) FROM mesh_internal.workload_instances i
    WHERE i.namespace = remove_machine.namespace AND i.machine = remove_machine.machine AND i.workload_group = coalesce(remove_machine.workload_group, i.workload_group);
  due := ARRAY(SELECT i FROM mesh_internal.workload_instances i
    WHERE i.namespace = remove_machine.namespace AND i.machine = remove_machine.machine AND i.workload_group = coalesce(remove_machine.workload_group, i.workload_group)
      AND NOT i.has_left);
  IF due = '{}' THEN
    RAISE no_data_found USING MESSAGE = format('there is no machine %s in the namespace %s%s', machine, namespace, coalesce(' with the WorkloadGroup ' || workload_group, '')),
      HINT = 'mesh.registered_machines has those there are';
  END IF;
  SELECT s.discovery INTO alive FROM unnest(due) d JOIN mesh_internal.workload_sessions s ON s.id = d.session WHERE d.gone IS NULL AND s.ended IS NULL LIMIT 1;
  IF FOUND AND NOT force THEN
    RAISE object_in_use USING MESSAGE = format('the machine %s is connected to the discovery %s', machine, alive),
      HINT = 'stop its agent, or revoke it: mcp-client identity revoke; by force it goes, and comes back if it is told of again';
  END IF;
  PERFORM mesh_internal.remove_workloads(due);
  PERFORM set_config('mesh.registering', '', true); -- for what else there is in the transaction
  RETURN cardinality(due);
END $$;

COMMENT ON FUNCTION mesh.remove_machine IS 'Removes a machine that is gone before its grace period ends, or one of its services, with its WorkloadEntries. With force it also removes a connected machine, which comes back if it registers again. Returns how many services went.';
