-- The resources as they were, computed backwards from the current ones: the cost depends on what
-- has changed since.

-- newest_revision and oldest_revision return only a number, to everybody.
CREATE OR REPLACE FUNCTION mesh.newest_revision() RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN (SELECT coalesce(max(revision), 0) FROM mesh_internal.transactions);
END $$;

COMMENT ON FUNCTION mesh.newest_revision IS 'Returns the number of the newest revision; 0 if there is none.';

CREATE OR REPLACE FUNCTION mesh.oldest_revision() RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN (SELECT pruned_through + 1 FROM mesh_internal.installation);
END $$;

COMMENT ON FUNCTION mesh.oldest_revision IS 'Returns the number of the oldest revision in the history.';

-- known_revision returns the revision if the history reaches back to it, and raises an error
-- otherwise.
CREATE OR REPLACE FUNCTION mesh_internal.known_revision(at bigint) RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  newest bigint := (SELECT coalesce(max(revision), 0) FROM mesh_internal.transactions);
  kept   mesh_internal.installation := (SELECT i FROM mesh_internal.installation i);
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

-- require_moment refuses NULL: most likely a query has found nothing, as max(revision) of no row does, and
-- whoever called would take silence for success, or the present for the past.
CREATE OR REPLACE FUNCTION mesh_internal.require_moment(what text, given text) RETURNS void LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF given IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'MS004', MESSAGE = format('there is no such %s: NULL', what),
      HINT = 'mesh.revisions has all revisions; a query that finds none of them gives NULL';
  END IF;
END $$;

-- newest_revision_by returns the newest revision at a time or before it, or the last that was
-- pruned. Times rise with the numbers, which have no gaps, so a binary search needs no index.
CREATE OR REPLACE FUNCTION mesh_internal.newest_revision_by(at timestamptz) RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  low    bigint := mesh.oldest_revision() - 1;
  high   bigint := mesh.newest_revision();
  middle bigint;
BEGIN
  WHILE low < high LOOP
    middle := (low + high + 1) / 2;
    IF (SELECT time <= at FROM mesh_internal.transactions WHERE revision = middle) THEN
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
  kept mesh_internal.installation := (SELECT i FROM mesh_internal.installation i);
BEGIN
  IF at < kept.pruned_time THEN
    RAISE EXCEPTION USING ERRCODE = 'MS004', MESSAGE = format('the history of %s is gone: it was pruned', at),
      HINT = format('the oldest revision whose state is known is %s, of %s', kept.pruned_through, kept.pruned_time);
  ELSIF at > clock_timestamp() AND NOT EXISTS (SELECT FROM mesh_internal.transactions WHERE revision = mesh.newest_revision() AND time >= at) THEN
    RAISE EXCEPTION USING ERRCODE = 'MS004', MESSAGE = format('%s is in the future', at),
      HINT = format('the newest revision is %s', mesh.newest_revision());
  END IF;
  RETURN CASE WHEN at IS NOT NULL THEN mesh_internal.newest_revision_by(at) END;
END $$;

COMMENT ON FUNCTION mesh.revision_at IS 'Returns the revision that was the newest at a time.';

-- known_revision_at returns the same to those who show what was there. Before the first revision that is
-- nothing, which one would take for a mesh that was emptied, and most likely the time is mistaken.
CREATE OR REPLACE FUNCTION mesh_internal.known_revision_at(at timestamptz) RETURNS bigint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  known bigint := mesh.revision_at(at);
BEGIN
  IF known = 0 AND mesh.newest_revision() > 0 THEN
    RAISE NOTICE '%', concat_ws(', which is of ', format('the mesh was still empty at %s, before its first revision', at), (SELECT r.time FROM mesh.revisions r WHERE r.revision = 1));
  END IF;
  RETURN known;
END $$;

DROP FUNCTION IF EXISTS mesh_internal.require_kinds(text[]); -- of earlier programs

-- readable_among reduces a selection of namespaces to those that the acting role may read. NULL
-- means all. The functions below run as the owner and filter by it. They can join tables in the
-- cheapest way, because they call nothing that others wrote.
CREATE OR REPLACE FUNCTION mesh_internal.readable_among(namespaces text[]) RETURNS text[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF mesh_internal.sees_all() THEN
    RETURN namespaces;
  END IF;
  RETURN ARRAY(SELECT n FROM unnest(mesh_internal.readable_namespaces()) n WHERE namespaces IS NULL OR n = ANY (namespaces));
END $$;

-- narrowed returns the namespaces that a program asks for, which are perhaps those that its caller may
-- read: in one of them there may be nothing yet.
CREATE OR REPLACE FUNCTION mesh_internal.narrowed(namespaces text[]) RETURNS text[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM set_config('mesh.narrowed', 'on', true);
  RETURN namespaces;
END $$;

-- require_namespaces refuses namespaces of which nothing is known, now or as far as the history goes.
-- What the acting role was granted is known, and where inserts go by default.
CREATE OR REPLACE FUNCTION mesh_internal.require_namespaces(namespaces text[]) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS $$
DECLARE
  readable text[] := mesh_internal.readable_among(NULL); -- NULL stands for all
  unknown  text;
  known    text[];
BEGIN
  IF namespaces IS NULL OR current_setting('mesh.narrowed', true) = 'on' THEN
    RETURN;
  END IF;
  SELECT coalesce(n, 'NULL') INTO unknown FROM unnest(namespaces) n
    WHERE (n IN ('', 'default') OR n = ANY (readable)) IS NOT TRUE AND NOT (readable IS NULL AND (
      EXISTS (SELECT FROM mesh.resources r WHERE r.namespace = n) OR EXISTS (SELECT FROM mesh_internal.changes c WHERE c.namespace = n)
      OR EXISTS (SELECT FROM mesh.settings s WHERE s.namespace = n) OR EXISTS (SELECT FROM mesh_internal.namespace_grants g WHERE g.namespace = n))) LIMIT 1;
  IF unknown IS NULL THEN
    RETURN;
  END IF;
  known := coalesce(readable, ARRAY(SELECT DISTINCT r.namespace FROM mesh.resources r ORDER BY 1 LIMIT 10000) || 'default'::text);
  RAISE EXCEPTION USING ERRCODE = 'MS010',
    MESSAGE = format('there is nothing in a namespace "%s", nor was there as far as the history goes', unknown),
    HINT = coalesce('did you mean "' || mesh_internal.nearest(unknown, known) || '"?', 'mesh.readable_resources has the namespaces of all');
END $$;

-- require_names refuses names that no resource has, or had as far as the history goes: most likely
-- they are misspelt, and nothing would be found. It knows what the acting role may read.
CREATE OR REPLACE FUNCTION mesh_internal.require_names(kinds text[], namespaces text[], names text[]) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS $$
DECLARE
  among   text[] := mesh_internal.readable_among(namespaces);
  unknown text;
  known   text[];
  other   record;
BEGIN
  IF array_position(names, NULL) IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'MS010', MESSAGE = 'there is no such name: NULL', HINT = 'mesh.readable_resources has the names of all';
  END IF;
  SELECT n INTO unknown FROM unnest(names) n
    WHERE NOT EXISTS (SELECT FROM mesh.resources r WHERE r.name = n AND (kinds IS NULL OR r.kind = ANY (kinds)) AND (among IS NULL OR r.namespace = ANY (among)))
      AND NOT EXISTS (SELECT FROM mesh_internal.changes c WHERE c.name = n AND (kinds IS NULL OR c.kind = ANY (kinds)) AND (among IS NULL OR c.namespace = ANY (among))) LIMIT 1;
  IF unknown IS NULL THEN
    PERFORM mesh_internal.require_namespaces(namespaces);
    RETURN;
  END IF;
  known := ARRAY(SELECT DISTINCT r.name FROM mesh.resources r WHERE (kinds IS NULL OR r.kind = ANY (kinds)) AND (among IS NULL OR r.namespace = ANY (among)) ORDER BY r.name LIMIT 10000);
  among := mesh_internal.readable_among(NULL);
  SELECT r.kind, r.namespace, r.name INTO other FROM mesh.resources r WHERE r.name = unknown AND (among IS NULL OR r.namespace = ANY (among))
    ORDER BY r.kind = ANY (kinds) DESC, r.kind, r.namespace LIMIT 1;
  RAISE EXCEPTION USING ERRCODE = 'MS010',
    MESSAGE = format('there is no %s "%s"%s, nor was there one as far as the history goes', coalesce(array_to_string(kinds, ' or '), 'resource'), unknown,
      CASE WHEN namespaces IS NULL THEN '' ELSE format(' in %s', (SELECT string_agg(format('"%s"', n), ', ') FROM unnest(namespaces) n)) END),
    HINT = CASE WHEN other.name IS NOT NULL THEN format('there is %s %s', other.kind, concat_ws('/', nullif(other.namespace, ''), other.name))
      ELSE coalesce('did you mean "' || mesh_internal.nearest(unknown, known) || '"?', 'mesh.readable_resources has the names of all') END;
END $$;

-- changed_since returns each resource that was changed after a revision, as it was then: all NULL
-- if it did not exist. Changes of the running transaction count. Postgres plans it each time,
-- because much depends on how long ago that was.
CREATE OR REPLACE FUNCTION mesh_internal.changed_since(at bigint, kinds text[] DEFAULT NULL, namespaces text[] DEFAULT NULL, names text[] DEFAULT NULL)
RETURNS TABLE (
  api_group text, kind text, namespace text, name text, spec jsonb, labels jsonb, annotations jsonb,
  revision bigint, generation bigint, created_at timestamptz, updated_at timestamptz)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
DECLARE
  among text[] := mesh_internal.readable_among(namespaces);
BEGIN
  RETURN QUERY
    SELECT DISTINCT ON (c.kind, c.api_group, c.namespace, c.name)
      c.api_group, c.kind, c.namespace, c.name, c.before_spec, c.before_labels, c.before_annotations,
      c.before_revision, c.before_generation, c.before_created_at, c.before_updated_at
    FROM mesh_internal.transactions t JOIN mesh_internal.changes c ON c.transaction_id = t.id
    WHERE (t.revision > at OR t.revision IS NULL)
      AND (kinds IS NULL OR c.kind = ANY (kinds)) AND (among IS NULL OR c.namespace = ANY (among)) AND (names IS NULL OR c.name = ANY (names))
    ORDER BY c.kind, c.api_group, c.namespace, c.name, t.revision NULLS LAST;
END $$;

COMMENT ON FUNCTION mesh_internal.changed_since IS 'Each resource that was changed after a revision, as it was at that revision.';

CREATE OR REPLACE FUNCTION mesh.as_of(at bigint, kinds text[] DEFAULT NULL, namespaces text[] DEFAULT NULL, names text[] DEFAULT NULL)
RETURNS TABLE (
  api_group text, kind text, namespace text, name text, spec jsonb, labels jsonb, annotations jsonb,
  revision bigint, generation bigint, created_at timestamptz, updated_at timestamptz)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
DECLARE
  among text[] := mesh_internal.readable_among(namespaces);
BEGIN
  kinds := mesh_internal.kinds_meant(kinds);
  PERFORM mesh_internal.require_moment('revision', at::text), mesh_internal.known_revision(at), mesh_internal.require_names(kinds, namespaces, names);
  RETURN QUERY
    SELECT r.api_group, r.kind, r.namespace, r.name, r.spec, r.labels, r.annotations, b.revision, r.generation, r.created_at, r.updated_at
    FROM mesh.resources r LEFT JOIN mesh_internal.transactions b ON b.xid = r.xid AND b.begun_at = r.updated_at
    WHERE (kinds IS NULL OR r.kind = ANY (kinds)) AND (among IS NULL OR r.namespace = ANY (among)) AND (names IS NULL OR r.name = ANY (names))
      AND NOT EXISTS (
        SELECT FROM mesh_internal.transactions t JOIN mesh_internal.changes c ON c.transaction_id = t.id
        WHERE (t.revision > at OR t.revision IS NULL) AND c.kind = r.kind AND c.api_group = r.api_group AND c.namespace = r.namespace AND c.name = r.name)
    UNION ALL
    SELECT * FROM mesh_internal.changed_since(at, kinds, namespaces, names) c WHERE c.spec IS NOT NULL;
END $$;

COMMENT ON FUNCTION mesh.as_of(bigint, text[], text[], text[]) IS 'Returns the resources, or those of some kinds, namespaces and names, as they were when a revision was the newest.';

CREATE OR REPLACE FUNCTION mesh.as_of(at timestamptz, kinds text[] DEFAULT NULL, namespaces text[] DEFAULT NULL, names text[] DEFAULT NULL)
RETURNS TABLE (
  api_group text, kind text, namespace text, name text, spec jsonb, labels jsonb, annotations jsonb,
  revision bigint, generation bigint, created_at timestamptz, updated_at timestamptz)
LANGUAGE sql STABLE AS $$
  SELECT mesh_internal.require_moment('time', at::text);
  SELECT * FROM mesh.as_of(mesh_internal.known_revision_at(at), kinds, namespaces, names)
$$;

COMMENT ON FUNCTION mesh.as_of(timestamptz, text[], text[], text[]) IS 'Returns the resources, or those of some kinds, namespaces and names, as they were at a time.';

-- time_meant reads a time as people type it: what Postgres takes for one, a time of today, or how long
-- ago.
CREATE OR REPLACE FUNCTION mesh_internal.time_meant(moment text) RETURNS timestamptz
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  long interval;
BEGIN
  BEGIN
    RETURN (CASE WHEN moment ~ '^\s*\d\d?:\d\d' THEN 'today ' ELSE '' END || moment)::timestamptz;
  EXCEPTION WHEN data_exception THEN
    NULL; -- it may be an interval
  END;
  BEGIN
    long := moment::interval;
  EXCEPTION WHEN data_exception THEN
    NULL;
  END;
  IF long < interval '0' THEN
    RETURN now() + long;
  END IF;
  RAISE invalid_datetime_format USING MESSAGE = format('"%s" is neither a revision nor a time', moment),
    HINT = CASE WHEN long IS NOT NULL THEN format('write ''%s ago''', moment) ELSE 'write a revision, such as 12, or a time, such as ''2026-05-01 12:00'', ''12:00'', ''yesterday'' or ''10 minutes ago''' END;
END $$;

-- is_revision reports whether a text is the number of a revision.
CREATE OR REPLACE FUNCTION mesh_internal.is_revision(moment text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$ SELECT moment ~ '^\s*-?\d{1,18}\s*$' $$;

-- revision_meant returns the revision that a text names, or that was the newest at its time.
CREATE OR REPLACE FUNCTION mesh_internal.revision_meant(moment text) RETURNS bigint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN CASE WHEN moment IS NULL THEN NULL WHEN mesh_internal.is_revision(moment) THEN moment::bigint ELSE mesh_internal.known_revision_at(mesh_internal.time_meant(moment)) END;
END $$;

-- A literal without a type could be a revision or a time. Postgres takes a function of text for it, if
-- there is one.
CREATE OR REPLACE FUNCTION mesh.as_of(at text, kinds text[] DEFAULT NULL, namespaces text[] DEFAULT NULL, names text[] DEFAULT NULL)
RETURNS TABLE (
  api_group text, kind text, namespace text, name text, spec jsonb, labels jsonb, annotations jsonb,
  revision bigint, generation bigint, created_at timestamptz, updated_at timestamptz)
LANGUAGE sql STABLE AS $$
  SELECT mesh_internal.require_moment('revision or time', at);
  SELECT * FROM mesh.as_of(mesh_internal.revision_meant(at), kinds, namespaces, names)
$$;

COMMENT ON FUNCTION mesh.as_of(text, text[], text[], text[]) IS 'Returns the resources, or those of some kinds, namespaces and names, as they were at a revision or a time, as people type it: 2026-05-01 12:00, 12:00, yesterday, 10 minutes ago.';
