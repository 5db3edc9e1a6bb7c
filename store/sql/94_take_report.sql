-- Taking the messages of reports. Who calls take_report holds the row of the report, so messages of
-- a report come one after the other.

-- Earlier programs called it without what is reported since.
DROP FUNCTION IF EXISTS mesh_internal.take_report(integer, bigint, bigint, bigint, jsonb, bigint[]);
DROP FUNCTION IF EXISTS mesh_internal.take_report(integer, bigint, bigint, bigint, jsonb, bigint[], jsonb, jsonb, jsonb, bigint[], bigint[]);
DROP FUNCTION IF EXISTS mesh_internal.take_report(integer, bigint, bigint, bigint, jsonb, bigint[], jsonb, jsonb, jsonb, bigint[], bigint[], bigint, jsonb);

-- take_proxies takes the proxies of a message. Those with a node are new.
-- It looks each of the others up by its key, whatever the statistics are: they never know of a report
-- that has just begun, and one statement for all would compare each proxy of the message with each of
-- the report.
CREATE OR REPLACE FUNCTION mesh_internal.take_proxies(of bigint, proxies jsonb, gone bigint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
  known mesh_internal.reported_proxies;
BEGIN
  INSERT INTO mesh_internal.reported_proxies AS p (report, stream, node, proxy, namespace, service_account, role, labels, locality, network, addresses,
      envoy, agent, protocol, connected, certificate_ends, circle, state, sent, runs, push, refused, refusals)
    SELECT of, n.stream, n.node, n.proxy, n.namespace, n.service_account, n.role, n.labels, n.locality, n.network, n.addresses,
      n.envoy, n.agent, n.protocol, least(n.connected, now()), n.certificate_ends, coalesce(n.circle, 0), n.state, n.sent, n.runs, n.push, n.refused, n.refusals
    FROM jsonb_populate_recordset(NULL::mesh_internal.reported_proxies, take_proxies.proxies) n WHERE n.node IS NOT NULL AND n.stream <> ALL (take_proxies.gone)
    ON CONFLICT ON CONSTRAINT reported_proxies_pkey DO UPDATE SET node = EXCLUDED.node, proxy = EXCLUDED.proxy, namespace = EXCLUDED.namespace,
      service_account = EXCLUDED.service_account, role = EXCLUDED.role, labels = EXCLUDED.labels, locality = EXCLUDED.locality, network = EXCLUDED.network,
      addresses = EXCLUDED.addresses, envoy = EXCLUDED.envoy, agent = EXCLUDED.agent, protocol = EXCLUDED.protocol, connected = EXCLUDED.connected,
      certificate_ends = EXCLUDED.certificate_ends, circle = EXCLUDED.circle, state = EXCLUDED.state, sent = EXCLUDED.sent, runs = EXCLUDED.runs, push = EXCLUDED.push,
      refused = EXCLUDED.refused, refusals = EXCLUDED.refusals, gone = NULL,
      changed = CASE WHEN p.state = EXCLUDED.state AND p.gone IS NULL THEN p.changed ELSE EXCLUDED.changed END;
  FOR known IN SELECT * FROM jsonb_populate_recordset(NULL::mesh_internal.reported_proxies, take_proxies.proxies) r WHERE r.node IS NULL AND r.stream <> ALL (take_proxies.gone) LOOP
    -- Refusals that are the same are not written again.
    UPDATE mesh_internal.reported_proxies p SET circle = coalesce(known.circle, p.circle), state = known.state, sent = known.sent, runs = known.runs, push = known.push, refused = known.refused,
        refusals = CASE WHEN p.refusals = known.refusals THEN p.refusals ELSE known.refusals END, changed = CASE WHEN p.state = known.state THEN p.changed ELSE now() END
      WHERE p.report = of AND p.stream = known.stream AND p.gone IS NULL;
    IF NOT FOUND THEN
      RAISE invalid_parameter_value USING MESSAGE = format('stream %s was not described', known.stream), HINT = 'describe a proxy in the first message that has its stream';
    END IF;
  END LOOP;
END $$;

-- take_rollouts takes how far revisions have come. Now and then it removes old ones, so that there
-- are never very many.
CREATE OR REPLACE FUNCTION mesh_internal.take_rollouts(of bigint, number bigint, rollouts jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
BEGIN
  INSERT INTO mesh_internal.report_rollouts (report, revision, after, began, parts)
    SELECT of, n.revision, n.after, least(n.began, now()), n.parts FROM jsonb_populate_recordset(NULL::mesh_internal.report_rollouts, take_rollouts.rollouts) n
    ON CONFLICT ON CONSTRAINT report_rollouts_pkey DO UPDATE SET after = EXCLUDED.after, began = EXCLUDED.began, parts = EXCLUDED.parts;
  IF take_rollouts.number % 100 = 0 THEN
    PERFORM mesh_internal.trim_rollouts(of);
  END IF;
END $$;

-- take_audiences takes whom resources concern. A resource that concerns nobody has no row. It looks
-- them up as take_proxies does.
CREATE OR REPLACE FUNCTION mesh_internal.take_audiences(of bigint, audiences jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
  dropped mesh_internal.report_audiences;
BEGIN
  INSERT INTO mesh_internal.report_audiences (report, api_group, kind, namespace, name, everyone, circles)
    SELECT of, n.api_group, n.kind, n.namespace, n.name, n.everyone, n.circles FROM jsonb_populate_recordset(NULL::mesh_internal.report_audiences, take_audiences.audiences) n
    WHERE n.everyone OR n.circles <> '{}'
    ON CONFLICT ON CONSTRAINT report_audiences_pkey DO UPDATE SET everyone = EXCLUDED.everyone, circles = EXCLUDED.circles;
  FOR dropped IN SELECT * FROM jsonb_populate_recordset(NULL::mesh_internal.report_audiences, take_audiences.audiences) r WHERE NOT r.everyone AND r.circles = '{}' LOOP
    DELETE FROM mesh_internal.report_audiences a WHERE a.report = of AND (a.name, a.namespace, a.kind, a.api_group) = (dropped.name, dropped.namespace, dropped.kind, dropped.api_group);
  END LOOP;
END $$;

-- take_versions takes which versions of registries' resources the discovery has. One that no registry
-- has any more has no row. It looks them up as take_proxies does.
CREATE OR REPLACE FUNCTION mesh_internal.take_versions(of bigint, versions jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
  dropped mesh_internal.report_versions;
BEGIN
  INSERT INTO mesh_internal.report_versions (report, api_group, kind, namespace, name, version, push)
    SELECT of, n.api_group, n.kind, n.namespace, n.name, n.version, n.push FROM jsonb_populate_recordset(NULL::mesh_internal.report_versions, take_versions.versions) n
    WHERE n.version <> ''
    ON CONFLICT ON CONSTRAINT report_versions_pkey DO UPDATE SET version = EXCLUDED.version, push = EXCLUDED.push;
  FOR dropped IN SELECT * FROM jsonb_populate_recordset(NULL::mesh_internal.report_versions, take_versions.versions) r WHERE r.version = '' LOOP
    DELETE FROM mesh_internal.report_versions v WHERE v.report = of AND (v.name, v.namespace, v.kind, v.api_group) = (dropped.name, dropped.namespace, dropped.kind, dropped.api_group);
  END LOOP;
END $$;

-- take_statuses takes what the discovery decides of the status of resources of the Gateway API. One
-- that has none any more has no row. It looks them up as take_proxies does.
CREATE OR REPLACE FUNCTION mesh_internal.take_statuses(of bigint, statuses jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
  dropped mesh_internal.report_statuses;
BEGIN
  INSERT INTO mesh_internal.report_statuses (report, api_group, kind, namespace, name, status)
    SELECT of, n.api_group, n.kind, n.namespace, n.name, n.status FROM jsonb_populate_recordset(NULL::mesh_internal.report_statuses, take_statuses.statuses) n
    WHERE n.status IS NOT NULL
    ON CONFLICT ON CONSTRAINT report_statuses_pkey DO UPDATE SET status = EXCLUDED.status, changed = EXCLUDED.changed;
  FOR dropped IN SELECT * FROM jsonb_populate_recordset(NULL::mesh_internal.report_statuses, take_statuses.statuses) r WHERE r.status IS NULL LOOP
    DELETE FROM mesh_internal.report_statuses s WHERE s.report = of AND (s.name, s.namespace, s.kind, s.api_group) = (dropped.name, dropped.namespace, dropped.kind, dropped.api_group);
  END LOOP;
END $$;

-- take_report takes one message of a report, as one transaction: the revision of all proxies that
-- are in step, and lists of objects with the columns of mesh_internal.reported_proxies and of the
-- tables beside it. What is NULL is as before. A message that was taken already changes nothing.
CREATE OR REPLACE FUNCTION mesh_internal.take_report(keeper integer, report bigint, number bigint, revision bigint, proxies jsonb, gone bigint[],
  rollouts jsonb DEFAULT NULL, audiences jsonb DEFAULT NULL, problems jsonb DEFAULT NULL, streams bigint[] DEFAULT NULL, took bigint[] DEFAULT NULL,
  push bigint DEFAULT 0, versions jsonb DEFAULT NULL, statuses jsonb DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  before mesh_internal.reports;
BEGIN
  PERFORM mesh_internal.require_server('report proxies');
  SELECT * INTO before FROM mesh_internal.reports r WHERE r.id = take_report.report AND r.keeper = take_report.keeper AND r.ended IS NULL FOR UPDATE;
  IF NOT FOUND OR NOT keeper = ANY (mesh_internal.live_keepers()) THEN
    PERFORM mesh_internal.refuse_ended_report();
  ELSIF take_report.number <= before.number THEN
    RETURN;
  END IF;
  IF take_report.proxies <> '[]' THEN
    PERFORM mesh_internal.take_proxies(before.id, take_report.proxies, take_report.gone);
  END IF;
  -- Who goes stays at what it ran, and moves no more with the others.
  IF take_report.gone <> '{}' THEN
    UPDATE mesh_internal.reported_proxies p SET gone = now(), sent = coalesce(p.sent, before.revision), runs = coalesce(p.runs, before.revision)
      WHERE p.report = before.id AND p.stream = ANY (take_report.gone) AND p.gone IS NULL;
  END IF;
  IF take_report.rollouts IS NOT NULL THEN
    PERFORM mesh_internal.take_rollouts(before.id, take_report.number, take_report.rollouts);
  END IF;
  IF take_report.audiences IS NOT NULL THEN
    PERFORM mesh_internal.take_audiences(before.id, take_report.audiences);
  END IF;
  IF take_report.versions IS NOT NULL THEN
    PERFORM mesh_internal.take_versions(before.id, take_report.versions);
  END IF;
  IF take_report.statuses IS NOT NULL THEN
    PERFORM mesh_internal.take_statuses(before.id, take_report.statuses);
  END IF;
  IF take_report.problems IS NOT NULL THEN
    INSERT INTO mesh_internal.report_problems (report, problems) VALUES (before.id, take_report.problems)
      ON CONFLICT ON CONSTRAINT report_problems_pkey DO UPDATE SET problems = EXCLUDED.problems;
  END IF;
  IF take_report.streams IS NOT NULL THEN
    INSERT INTO mesh_internal.report_times (report, streams, took) VALUES (before.id, take_report.streams, take_report.took)
      ON CONFLICT ON CONSTRAINT report_times_pkey DO UPDATE SET streams = EXCLUDED.streams, took = EXCLUDED.took;
  END IF;
  UPDATE mesh_internal.reports r SET number = take_report.number, revision = take_report.revision, push = take_report.push WHERE r.id = before.id;
END $$;

COMMENT ON FUNCTION mesh_internal.take_report IS 'Internal. Servers report proxies by it.';
