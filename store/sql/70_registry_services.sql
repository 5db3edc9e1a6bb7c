-- What registries have for those who name a host, a port, a subset, labels or a secret. Each function looks up
-- by an index, whatever the statistics, which know nothing of a registry that has just begun, and
-- whoever asks: find_problems turns nested loops off.

-- registry_services returns the services that registries have for a host. In a namespace they are
-- those of the first origin, and of the other registries of its set, as for proxies. Of very many it
-- is some.
CREATE OR REPLACE FUNCTION mesh_internal.registry_services(host text)
RETURNS TABLE (registry text, kind text, api_group text, namespace text, name text, scope text[], detail jsonb)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 1 SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_nestloop = on AS $$
#variable_conflict use_column
DECLARE
  found mesh_internal.registry_links[] := ARRAY(SELECT l FROM mesh_internal.registry_links l WHERE l.role = 'service' AND l.target = registry_services.host LIMIT 200);
BEGIN
  IF cardinality(found) < 2 THEN -- as nearly always: then none comes before another
    RETURN QUERY
      SELECT f.registry, f.kind, f.api_group, f.namespace, f.name, f.scope, f.detail FROM unnest(found) f JOIN mesh_internal.registries g ON g.name = f.registry
      WHERE (g.ended IS NULL OR g.ended > now() - interval '1 hour')
        AND NOT EXISTS (SELECT FROM mesh_internal.links o WHERE o.role = 'service' AND o.target = f.target AND o.namespace = f.namespace)
        AND NOT (EXISTS (SELECT FROM mesh.resources r WHERE r.kind = f.kind AND r.api_group = f.api_group AND r.namespace = f.namespace AND r.name = f.name)
          OR EXISTS (SELECT FROM mesh_internal.registry_entries e WHERE e.name = f.name AND e.namespace = f.namespace AND e.kind = f.kind AND e.api_group = f.api_group AND e.registry <> f.registry)
            AND mesh_internal.is_outranked(f.kind, f.api_group, f.namespace, f.name, f.registry)); -- which is slow to ask
    RETURN;
  END IF;
  RETURN QUERY
    WITH placed AS (
      SELECT f.*, rank() OVER w AS place, coalesce(e.annotations ->> 'pgmesh.io/origin-set' = first_value(e.annotations ->> 'pgmesh.io/origin-set') OVER w, false) AS of_set
      FROM unnest(found) f JOIN mesh_internal.registry_entries e USING (name, namespace, kind, api_group, registry) JOIN mesh_internal.registries g ON g.name = f.registry
      WHERE (g.ended IS NULL OR g.ended > now() - interval '1 hour') AND NOT mesh_internal.is_outranked(f.kind, f.api_group, f.namespace, f.name, f.registry)
      WINDOW w AS (PARTITION BY f.namespace ORDER BY g.rank, g.name))
    SELECT p.registry, p.kind, p.api_group, p.namespace, p.name, p.scope, p.detail FROM placed p WHERE (p.place = 1 OR p.of_set)
      AND NOT EXISTS (SELECT FROM mesh_internal.links o WHERE o.role = 'service' AND o.target = registry_services.host AND o.namespace = p.namespace);
END $$;

-- registries_have reports whether a registry has a host for somebody who may see what these
-- namespaces have or export to them.
CREATE OR REPLACE FUNCTION mesh_internal.registries_have(host text, namespaces text[], exported_to text[]) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
BEGIN
  RETURN EXISTS (SELECT FROM mesh_internal.registry_services(registries_have.host) s WHERE s.namespace = ANY (namespaces) OR s.scope && exported_to);
END $$;

-- registry_ports returns the ports of a host that registries have for those in these namespaces; * if
-- one of its services names none, and NULL if there is no service.
CREATE OR REPLACE FUNCTION mesh_internal.registry_ports(host text, namespaces text[]) RETURNS text[]
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
BEGIN
  RETURN (SELECT array_agg(DISTINCT coalesce(p.port, '*')) FROM mesh_internal.registry_services(registry_ports.host) s LEFT JOIN LATERAL jsonb_object_keys(s.detail -> 'ports') p (port) ON true
    WHERE s.namespace = ANY (namespaces) OR s.scope && namespaces);
END $$;

-- registries_choose reports whether a registry has a workload with these labels in a namespace; NULL
-- stands for any.
CREATE OR REPLACE FUNCTION mesh_internal.registries_choose(labels jsonb, namespace text) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_nestloop = on AS $$
BEGIN
  RETURN EXISTS (SELECT FROM mesh_internal.registry_workloads w
    WHERE w.labels @> registries_choose.labels AND w.namespace = coalesce(registries_choose.namespace, w.namespace)
      AND NOT mesh_internal.is_outranked(w.kind, w.api_group, w.namespace, w.name, w.registry));
END $$;

-- serve_subset reports whether an endpoint of a host has labels, wherever its services and workloads
-- are kept; NULL if it has no endpoint.
CREATE OR REPLACE FUNCTION mesh_internal.serve_subset(host text, labels jsonb) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_nestloop = on AS $$
BEGIN
  RETURN (SELECT bool_or(mesh_internal.with_place(b.labels, b.endpoint ->> 'locality', b.endpoint ->> 'network') @> serve_subset.labels)
    FROM (
      SELECT r.namespace, r.spec, r.annotations FROM mesh_internal.links l JOIN mesh.resources r USING (name, namespace, kind, api_group) WHERE l.role = 'service' AND l.target = serve_subset.host
      UNION ALL
      SELECT e.namespace, e.spec, e.annotations FROM mesh_internal.registry_services(serve_subset.host) s JOIN mesh_internal.registry_entries e USING (name, namespace, kind, api_group, registry)) o,
      mesh_internal.backends_of(serve_subset.host, o.namespace, o.spec, mesh_internal.selector_of(o.spec, o.annotations), false) b);
END $$;

-- registry_owner returns a resource of a registry with a target in a role, beside one of this name, as
-- far as the reader may know of it.
CREATE OR REPLACE FUNCTION mesh_internal.registry_owner(of_role text, of_target text, of_part text, of_namespace text, of_name text, of_scope text[])
RETURNS TABLE (kind text, namespace text, name text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY SELECT o.kind, o.namespace, o.name FROM mesh_internal.registry_links o
    WHERE o.role = of_role COLLATE "default" AND o.target = of_target AND o.part = of_part AND (o.namespace <> of_namespace OR o.name <> of_name)
      AND mesh_internal.overlap(o.scope, of_scope) AND mesh_internal.may_name(o.namespace, o.scope)
      AND NOT mesh_internal.is_outranked(o.kind, o.api_group, o.namespace, o.name, o.registry)
    ORDER BY o.namespace <> of_namespace, o.namespace, o.name LIMIT 1;
END $$;

-- registries_lend reports whether a registry has a secret of a name for gateways, in a namespace; ''
-- stands for any.
CREATE OR REPLACE FUNCTION mesh_internal.registries_lend(name text, namespace text) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
BEGIN
  RETURN EXISTS (SELECT FROM mesh_internal.registry_entries e WHERE e.name = $1 AND ($2 = '' OR e.namespace = $2) AND e.kind = 'Secret' AND e.api_group = 'core');
END $$;

-- lent_secrets returns the secrets that registries have for gateways, and when their certificates are
-- valid.
CREATE OR REPLACE FUNCTION mesh_internal.lent_secrets() RETURNS TABLE (namespace text, name text, not_before timestamptz, not_after timestamptz)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_nestloop = on AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY SELECT e.namespace, e.name, (e.spec ->> 'notBefore')::timestamptz, (e.spec ->> 'notAfter')::timestamptz
    FROM mesh_internal.registries g JOIN mesh_internal.registry_entries e ON e.registry = g.name
    WHERE e.kind = 'Secret' AND e.api_group = 'core' AND NOT mesh_internal.is_outranked(e.kind, e.api_group, e.namespace, e.name, e.registry);
END $$;
