-- The resources as they were, computed backwards from those that stand: the cost is that of what has changed since.

-- newest_revision and oldest_revision tell the number alone, to everybody.
CREATE OR REPLACE FUNCTION mesh.newest_revision() RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN (SELECT coalesce(max(revision), 0) FROM mesh.transactions);
END $$;

COMMENT ON FUNCTION mesh.newest_revision IS 'The number of the newest revision; 0 if there is none.';

CREATE OR REPLACE FUNCTION mesh.oldest_revision() RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN (SELECT pruned_through + 1 FROM mesh.installation);
END $$;

COMMENT ON FUNCTION mesh.oldest_revision IS 'The number of the oldest revision that the history has.';

-- known_revision returns the revision if the state at it can be told, and refuses it else.
CREATE OR REPLACE FUNCTION mesh.known_revision(at bigint) RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  newest bigint := (SELECT coalesce(max(revision), 0) FROM mesh.transactions);
  kept   mesh.installation := (SELECT i FROM mesh.installation i);
BEGIN
  IF at > newest THEN
    RAISE EXCEPTION USING ERRCODE = 'MS004', MESSAGE = format('there is no revision %s yet', at),
      HINT = format('the newest revision is %s', newest);
  ELSIF at < 0 THEN
    RAISE EXCEPTION USING ERRCODE = 'MS004', MESSAGE = format('there is no revision %s', at),
      HINT = 'revisions count from 1; 0 is the empty mesh before the first';
  ELSIF at < kept.pruned_through THEN
    RAISE EXCEPTION USING ERRCODE = 'MS004', MESSAGE = format('the history of revision %s is gone: it was pruned', at),
      HINT = format('the oldest revision whose state is known is %s%s', kept.pruned_through, ', of ' || kept.pruned_time);
  END IF;
  RETURN at;
END $$;

-- newest_revision_by finds the newest revision of a time or before it, or else the last that was pruned. Times rise with the numbers,
-- which have no gaps, so halving the numbers finds it, and no index has to be kept for it.
CREATE OR REPLACE FUNCTION mesh.newest_revision_by(at timestamptz) RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  low    bigint := mesh.oldest_revision() - 1;
  high   bigint := mesh.newest_revision();
  middle bigint;
BEGIN
  WHILE low < high LOOP
    middle := (low + high + 1) / 2;
    IF (SELECT time <= at FROM mesh.transactions WHERE revision = middle) THEN
      low := middle;
    ELSE
      high := middle - 1;
    END IF;
  END LOOP;
  RETURN low;
END $$;

CREATE OR REPLACE FUNCTION mesh.revision_at(at timestamptz) RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  kept mesh.installation := (SELECT i FROM mesh.installation i);
BEGIN
  IF at < kept.pruned_time THEN
    RAISE EXCEPTION USING ERRCODE = 'MS004', MESSAGE = format('the history of %s is gone: it was pruned', at),
      HINT = format('the oldest revision whose state is known is %s, of %s', kept.pruned_through, kept.pruned_time);
  ELSIF at > clock_timestamp() AND NOT EXISTS (SELECT FROM mesh.transactions WHERE revision = mesh.newest_revision() AND time >= at) THEN
    RAISE EXCEPTION USING ERRCODE = 'MS004', MESSAGE = format('%s is in the future', at),
      HINT = format('the newest revision is %s', mesh.newest_revision());
  END IF;
  RETURN CASE WHEN at IS NOT NULL THEN mesh.newest_revision_by(at) END;
END $$;

COMMENT ON FUNCTION mesh.revision_at IS 'The revision that was the newest at a time.';

-- changed_since has each resource that was changed after a revision, as it was at that revision: all NULL if it was not there.
-- What the running transaction has changed counts.
CREATE OR REPLACE FUNCTION mesh.changed_since(at bigint) RETURNS TABLE (
  api_group text, kind text, namespace text, name text, spec jsonb, labels jsonb, annotations jsonb,
  revision bigint, generation bigint, created_at timestamptz, updated_at timestamptz)
LANGUAGE sql STABLE AS $$
  SELECT DISTINCT ON (c.kind, c.api_group, c.namespace, c.name)
    c.api_group, c.kind, c.namespace, c.name, c.before_spec, c.before_labels, c.before_annotations,
    c.before_revision, c.before_generation, c.before_created_at, c.before_updated_at
  FROM mesh.recorded_changes c
  WHERE c.revision > at OR c.revision IS NULL
  ORDER BY c.kind, c.api_group, c.namespace, c.name, c.revision NULLS LAST
$$;

COMMENT ON FUNCTION mesh.changed_since IS 'Each resource that was changed after a revision, as it was at that revision.';

CREATE OR REPLACE FUNCTION mesh.as_of(at bigint) RETURNS TABLE (
  api_group text, kind text, namespace text, name text, spec jsonb, labels jsonb, annotations jsonb,
  revision bigint, generation bigint, created_at timestamptz, updated_at timestamptz)
LANGUAGE sql STABLE AS $$
  SELECT was.*
  FROM mesh.known_revision(at) known, LATERAL (
    SELECT r.api_group, r.kind, r.namespace, r.name, r.spec, r.labels, r.annotations, r.revision, r.generation, r.created_at, r.updated_at
    FROM mesh.resources r
    WHERE r.revision <= known AND (r.kind, r.api_group, r.namespace, r.name) NOT IN (
      SELECT c.kind, c.api_group, c.namespace, c.name FROM mesh.recorded_changes c WHERE c.revision IS NULL)
    UNION ALL
    SELECT c.* FROM mesh.changed_since(known) c WHERE c.spec IS NOT NULL) was
$$;

COMMENT ON FUNCTION mesh.as_of(bigint) IS 'The resources as they were when a revision was the newest.';

CREATE OR REPLACE FUNCTION mesh.as_of(at timestamptz) RETURNS TABLE (
  api_group text, kind text, namespace text, name text, spec jsonb, labels jsonb, annotations jsonb,
  revision bigint, generation bigint, created_at timestamptz, updated_at timestamptz)
LANGUAGE sql STABLE AS $$
  SELECT * FROM mesh.as_of(mesh.revision_at(at))
$$;

COMMENT ON FUNCTION mesh.as_of(timestamptz) IS 'The resources as they were at a time.';
