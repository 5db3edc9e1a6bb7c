-- How far revisions have come. A discovery reports its pushes, each of which carries a revision, and
-- those before it that came at the same time.

-- recent_revisions are those of the last hour, at most a thousand. The author is for those who may
-- see the revision in mesh.revisions.
CREATE OR REPLACE VIEW mesh_internal.recent_revisions WITH (security_barrier) AS
  SELECT t.revision, t.time, CASE WHEN s.seen THEN t.author END AS author, s.seen
  FROM mesh_internal.transactions t, LATERAL (SELECT (SELECT mesh_internal.shows_all()) OR EXISTS (
      SELECT FROM mesh_internal.changes c WHERE c.transaction_id = t.id AND c.namespace = ANY ((SELECT mesh_internal.shown_namespaces())::text[]))
    OR t.secrets AND EXISTS (
      SELECT FROM mesh_internal.secret_changes c WHERE c.transaction_id = t.id AND c.namespace = ANY ((SELECT mesh_internal.shown_namespaces())::text[])) AS seen) s
  WHERE t.revision > greatest((SELECT pruned_through FROM mesh_internal.installation), (SELECT mesh.newest_revision()) - 1000)
    AND t.time > now() - interval '1 hour';

COMMENT ON VIEW mesh_internal.recent_revisions IS 'Internal. Read mesh.rollouts.';

-- carried_revisions has, for a revision and each report, the push that carried it: the first since.
CREATE OR REPLACE VIEW mesh_internal.carried_revisions AS
  SELECT t.revision, r.id AS report, r.discovery, r.ended IS NULL AND r.keeper = ANY ((SELECT mesh_internal.live_keepers())::int[]) AS here, x.revision AS push, x.began, x.parts
  FROM mesh_internal.transactions t CROSS JOIN mesh_internal.reports r CROSS JOIN LATERAL (
    SELECT * FROM mesh_internal.report_rollouts x WHERE x.report = r.id AND x.revision >= t.revision ORDER BY x.revision LIMIT 1) x
  WHERE x.after < t.revision;

COMMENT ON VIEW mesh_internal.carried_revisions IS 'Internal. Read mesh.rollouts.';

-- first_pushes leaves out what a discovery reported twice, because it reports anew all that it knows
-- where it has lost its server; and what brought the revision again, because the discovery had
-- started anew.
CREATE OR REPLACE VIEW mesh_internal.first_pushes AS
  SELECT c.revision, c.discovery, c.here, c.began, c.parts
  FROM (
    SELECT c.*, min(c.push) FILTER (WHERE c.here) OVER discovery AS first_here, min(c.push) FILTER (WHERE NOT c.here) OVER discovery AS first_gone,
      row_number() OVER (PARTITION BY c.revision, c.discovery, c.here ORDER BY c.push, c.report DESC) AS n
    FROM mesh_internal.carried_revisions c WINDOW discovery AS (PARTITION BY c.revision, c.discovery)) c
  WHERE CASE WHEN c.here THEN c.push <= c.first_gone IS NOT false ELSE c.n = 1 AND c.push < c.first_here IS NOT false END;

COMMENT ON VIEW mesh_internal.first_pushes IS 'Internal. Read mesh.rollouts.';

-- rollout_shares has the part of each namespace in these pushes, for those who may be told of its
-- proxies. Whom a report that counts no more has not heard of is away.
CREATE OR REPLACE VIEW mesh_internal.rollout_shares WITH (security_barrier) AS
  SELECT f.revision, f.discovery, p.namespace, p.concerned, p.ran, p.refused,
    CASE WHEN f.here THEN o.open ELSE 0 END AS to_answer, p.away + CASE WHEN f.here THEN 0 ELSE o.open END AS away, f.began, p.took
  FROM mesh_internal.first_pushes f,
    LATERAL jsonb_to_recordset(f.parts) AS p (namespace text, concerned bigint, ran bigint, refused bigint, away bigint, took bigint[]),
    LATERAL (SELECT p.concerned - p.ran - p.refused - p.away AS open) o
  WHERE (SELECT mesh_internal.shows_all()) OR p.namespace = ANY ((SELECT mesh_internal.shown_namespaces())::text[]);

COMMENT ON VIEW mesh_internal.rollout_shares IS 'Internal. Read mesh.rollouts.';

-- reached_by says how many of a number of proxies had run a revision at the i-th of so many times.
-- Where there are fewer times than proxies, they are the first, the last, and others evenly between.
CREATE OR REPLACE FUNCTION mesh_internal.reached_by(i bigint, times integer, ran bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN i = 0 THEN 0 WHEN times = 1 THEN ran ELSE 1 + (i - 1) * (ran - 1) / (times - 1) END
$$;

-- progress_of counts the proxies of a revision, altogether or by discovery and namespace. A time
-- stands for the proxies since the one before. Plans for it are made once, for there is no telling
-- how many rows a list in a column has.
CREATE OR REPLACE FUNCTION mesh_internal.progress_of(of bigint, by_part boolean)
RETURNS TABLE (discovery text, namespace text, concerned bigint, ran bigint, refused bigint, to_answer bigint, away bigint, first_at timestamptz, half_at timestamptz, last_at timestamptz)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 1 COST 10000 SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  WITH shares AS MATERIALIZED (
    SELECT CASE WHEN by_part THEN s.discovery ELSE '' END AS discovery, CASE WHEN by_part THEN s.namespace ELSE '' END AS namespace,
      s.concerned, s.ran, s.refused, s.to_answer, s.away, s.began, s.took
    FROM mesh_internal.rollout_shares s WHERE s.revision = of),
  times AS (
    SELECT t.discovery, t.namespace, t.at, sum(t.proxies) OVER (PARTITION BY t.discovery, t.namespace ORDER BY t.at) AS reached, sum(t.proxies) OVER (PARTITION BY t.discovery, t.namespace) AS ran
    FROM (
      SELECT s.discovery, s.namespace, s.began + u.took * interval '1 microsecond' AS at,
        mesh_internal.reached_by(u.i, cardinality(s.took), s.ran) - mesh_internal.reached_by(u.i - 1, cardinality(s.took), s.ran) AS proxies
      FROM shares s, unnest(s.took) WITH ORDINALITY u (took, i)) t),
  landmarks AS (
    SELECT t.discovery, t.namespace, min(t.at) AS first_at, min(t.at) FILTER (WHERE 2 * t.reached >= t.ran) AS half_at, max(t.at) AS last_at FROM times t GROUP BY 1, 2)
  SELECT n.*, l.first_at, l.half_at, l.last_at
  FROM (
    SELECT s.discovery, s.namespace, sum(s.concerned)::bigint, sum(s.ran)::bigint, sum(s.refused)::bigint, sum(s.to_answer)::bigint, sum(s.away)::bigint
    FROM shares s GROUP BY 1, 2) n LEFT JOIN landmarks l USING (discovery, namespace);
END $$;

CREATE OR REPLACE VIEW mesh.rollouts WITH (security_barrier) AS
  SELECT v.revision, v.time AS committed_at, v.author, coalesce(n.concerned, 0) AS concerned, coalesce(n.ran, 0) AS ran, coalesce(n.refused, 0) AS refused,
    coalesce(n.to_answer, 0) AS to_answer, coalesce(n.away, 0) AS away, n.first_at, n.half_at, n.last_at
  FROM mesh_internal.recent_revisions v LEFT JOIN LATERAL mesh_internal.progress_of(v.revision, false) n ON true
  WHERE v.seen OR n.concerned > 0;

COMMENT ON VIEW mesh.rollouts IS 'How far each revision of the last hour has come, of at most a thousand. One that was pushed together with later ones has the numbers of that push. The numbers are those of proxies that one may read.';
COMMENT ON COLUMN mesh.rollouts.revision IS 'The revision.';
COMMENT ON COLUMN mesh.rollouts.committed_at IS 'When it was committed.';
COMMENT ON COLUMN mesh.rollouts.author IS 'Who made the change; NULL for who may not read what it changed.';
COMMENT ON COLUMN mesh.rollouts.concerned IS 'How many proxies there was something new for. It is the sum of the four numbers that follow.';
COMMENT ON COLUMN mesh.rollouts.ran IS 'How many of them have run it, or something newer.';
COMMENT ON COLUMN mesh.rollouts.refused IS 'How many do not, because they refuse a resource.';
COMMENT ON COLUMN mesh.rollouts.to_answer IS 'How many are still to answer.';
COMMENT ON COLUMN mesh.rollouts.away IS 'How many left before they ran it, or were lost sight of.';
COMMENT ON COLUMN mesh.rollouts.first_at IS 'When the first proxy ran it; NULL as long as none has.';
COMMENT ON COLUMN mesh.rollouts.half_at IS 'When half of those that have run it did.';
COMMENT ON COLUMN mesh.rollouts.last_at IS 'When the last proxy ran it, so far.';

CREATE OR REPLACE VIEW mesh.rollout_parts WITH (security_barrier) AS
  SELECT v.revision, n.* FROM mesh_internal.recent_revisions v CROSS JOIN LATERAL mesh_internal.progress_of(v.revision, true) n;

COMMENT ON VIEW mesh.rollout_parts IS 'mesh.rollouts by discovery and namespace, a row for each that has proxies which the revision concerns.';
COMMENT ON COLUMN mesh.rollout_parts.revision IS 'The revision.';
COMMENT ON COLUMN mesh.rollout_parts.discovery IS 'The discovery.';
COMMENT ON COLUMN mesh.rollout_parts.namespace IS 'The namespace of the proxies.';
COMMENT ON COLUMN mesh.rollout_parts.concerned IS 'How many proxies there was something new for. It is the sum of the four numbers that follow.';
COMMENT ON COLUMN mesh.rollout_parts.ran IS 'How many of them have run it, or something newer.';
COMMENT ON COLUMN mesh.rollout_parts.refused IS 'How many do not, because they refuse a resource.';
COMMENT ON COLUMN mesh.rollout_parts.to_answer IS 'How many are still to answer.';
COMMENT ON COLUMN mesh.rollout_parts.away IS 'How many left before they ran it, or were lost sight of.';
COMMENT ON COLUMN mesh.rollout_parts.first_at IS 'When the first proxy ran it; NULL as long as none has.';
COMMENT ON COLUMN mesh.rollout_parts.half_at IS 'When half of those that have run it did.';
COMMENT ON COLUMN mesh.rollout_parts.last_at IS 'When the last proxy ran it, so far.';

-- latest_rollouts returns so many of the latest, from a revision on, and counts no others.
CREATE OR REPLACE FUNCTION mesh_internal.latest_rollouts(low bigint, most integer) RETURNS SETOF mesh.rollouts
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  v    record;
  rest integer := most;
BEGIN
  FOR v IN SELECT r.revision, r.time, r.author, r.seen FROM mesh_internal.recent_revisions r WHERE r.revision >= low ORDER BY r.revision DESC LOOP
    EXIT WHEN rest = 0;
    RETURN QUERY SELECT v.revision, v.time, v.author, coalesce(n.concerned, 0), coalesce(n.ran, 0), coalesce(n.refused, 0), coalesce(n.to_answer, 0), coalesce(n.away, 0),
        n.first_at, n.half_at, n.last_at
      FROM (SELECT) one LEFT JOIN mesh_internal.progress_of(v.revision, false) n ON true WHERE v.seen OR n.concerned > 0;
    rest := rest - FOUND::integer;
  END LOOP;
END $$;
