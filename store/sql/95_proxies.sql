-- The proxies of the mesh, as the reports that count tell of them.

-- known_proxies has each proxy once, by its newest stream, for those who may be told of it.
CREATE OR REPLACE VIEW mesh_internal.known_proxies WITH (security_barrier) AS
  SELECT DISTINCT ON (p.namespace, p.proxy)
    p.namespace, p.proxy, p.node, p.role, p.service_account, p.labels, p.locality, p.network, p.addresses, p.envoy, p.agent, p.protocol, r.discovery, k.server, p.connected,
    CASE WHEN l.here THEN p.state ELSE 'away' END AS state, nullif(coalesce(p.sent, r.revision), 0) AS sent, nullif(coalesce(p.runs, r.revision), 0) AS runs,
    p.refused, p.changed, least(p.gone, r.ended) AS gone, p.certificate_ends, p.report, p.stream, p.circle, CASE WHEN l.here THEN p.refusals END AS refusals,
    coalesce(p.push, r.push) AS push
  FROM mesh_internal.reported_proxies p JOIN mesh_internal.reports r ON r.id = p.report JOIN mesh_internal.report_keepers k ON k.id = r.keeper,
    LATERAL (SELECT p.gone IS NULL AND r.ended IS NULL AND k.id = ANY ((SELECT mesh_internal.live_keepers())::int[]) AS here) l
  WHERE (SELECT mesh_internal.shows_all()) OR p.namespace = ANY ((SELECT mesh_internal.shown_namespaces())::text[])
  ORDER BY p.namespace, p.proxy, l.here DESC, p.connected DESC, p.report DESC, p.stream DESC;

COMMENT ON VIEW mesh_internal.known_proxies IS 'Internal. Read mesh.proxies.';

-- OFFSET keeps Postgres from unfolding the times anew for each proxy.
CREATE OR REPLACE VIEW mesh.proxies WITH (security_barrier) AS
  SELECT p.namespace, p.proxy, p.node, p.role, p.service_account, p.labels, p.locality, p.network, p.addresses, p.envoy, p.agent, p.protocol, p.discovery, p.server, p.connected,
    p.state, p.sent, p.runs, p.refused, p.changed, p.gone, p.certificate_ends, t.took * interval '1 microsecond' AS took
  FROM mesh_internal.known_proxies p
    LEFT JOIN (SELECT t.report, u.stream, u.took FROM mesh_internal.report_times t, unnest(t.streams, t.took) u (stream, took) OFFSET 0) t ON t.report = p.report AND t.stream = p.stream;

COMMENT ON VIEW mesh.proxies IS 'The proxies of the mesh and which revision each of them runs, as their discoveries report it: connected ones, and those away for less than ten minutes. A proxy with several streams is shown once, by the newest.';
COMMENT ON COLUMN mesh.proxies.namespace IS 'The namespace of the proxy.';
COMMENT ON COLUMN mesh.proxies.proxy IS 'Its id in the namespace.';
COMMENT ON COLUMN mesh.proxies.node IS 'The node id by which Envoy names itself.';
COMMENT ON COLUMN mesh.proxies.role IS 'sidecar or router.';
COMMENT ON COLUMN mesh.proxies.service_account IS 'The service account, as in its certificate; without certificates, by its word.';
COMMENT ON COLUMN mesh.proxies.labels IS 'Its labels, an object of strings. Those beyond 16 KiB are left out.';
COMMENT ON COLUMN mesh.proxies.locality IS 'The locality, as REGION/ZONE/SUBZONE.';
COMMENT ON COLUMN mesh.proxies.network IS 'The network of its addresses.';
COMMENT ON COLUMN mesh.proxies.addresses IS 'Its addresses.';
COMMENT ON COLUMN mesh.proxies.envoy IS 'The version of Envoy.';
COMMENT ON COLUMN mesh.proxies.agent IS 'The version of its mesh-agent; empty without one.';
COMMENT ON COLUMN mesh.proxies.protocol IS 'How it takes configuration: delta or sotw.';
COMMENT ON COLUMN mesh.proxies.discovery IS 'The discovery that it is connected to, or last was.';
COMMENT ON COLUMN mesh.proxies.server IS 'The mcp-server that the discovery reports to.';
COMMENT ON COLUMN mesh.proxies.connected IS 'When its stream to the discovery began.';
COMMENT ON COLUMN mesh.proxies.state IS 'synced: it runs what it was sent; sending: something is on its way; refused: it refuses some of what it was sent, and runs the rest; silent: it has not answered for long; away: it is not connected, or nobody knows whether it is.';
COMMENT ON COLUMN mesh.proxies.sent IS 'The revision that it was sent last; NULL for none yet.';
COMMENT ON COLUMN mesh.proxies.runs IS 'The revision that it runs; NULL for none yet, and for one that refuses what replaces some of it and may have lost that. Of a proxy that is away, the last that is known.';
COMMENT ON COLUMN mesh.proxies.refused IS 'How many resources it refuses.';
COMMENT ON COLUMN mesh.proxies.changed IS 'Since when it is in this state; of a proxy that is away, in the state before.';
COMMENT ON COLUMN mesh.proxies.gone IS 'Since when it is away; NULL while it is not, and until it was noticed that the server that knew of it is gone.';
COMMENT ON COLUMN mesh.proxies.certificate_ends IS 'When the certificate ends by which it is connected; NULL without one.';
COMMENT ON COLUMN mesh.proxies.took IS 'How long its last change took, from the push of its discovery to its last answer; NULL before the first.';

CREATE OR REPLACE FUNCTION mesh.runs_at(revision bigint) RETURNS SETOF mesh.proxies
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT p.* FROM mesh.proxies p WHERE p.state <> 'away' AND coalesce(p.runs, 0) >= runs_at.revision
$$;

COMMENT ON FUNCTION mesh.runs_at IS 'Lists the connected proxies that run a revision or a later one, as in mesh.proxies.';
