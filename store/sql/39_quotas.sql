-- How much may be stored: the size of a resource, which is the same for all, and the number and size of a namespace's resources, for those who
-- write to some namespaces alone. Whoever may write everywhere decides about the limits.

-- size_of is how large a resource is as JSON.
CREATE OR REPLACE FUNCTION mesh.size_of(spec jsonb, labels jsonb, annotations jsonb) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT octet_length(spec::text)::bigint + octet_length(labels::text) + octet_length(annotations::text)
$$;

-- in_words is a number of bytes for people.
CREATE OR REPLACE FUNCTION mesh.in_words(bytes numeric) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN bytes < 10240 THEN bytes || ' bytes' WHEN bytes < 10485760 THEN round(bytes / 1024) || ' KiB' ELSE round(bytes / 1048576) || ' MiB' END
$$;

-- refuse_large refuses resources that are larger than one may be. What is larger already may be written smaller. Only what takes more than 8 kB
-- in memory is measured.
CREATE OR REPLACE FUNCTION mesh.refuse_large(written mesh.changes[]) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  c       mesh.changes;
  size    bigint;
  allowed bigint;
BEGIN
  FOREACH c IN ARRAY written LOOP
    CONTINUE WHEN c.after_spec IS NULL OR pg_column_size(c.after_spec) + pg_column_size(c.after_labels) + pg_column_size(c.after_annotations) < 8192;
    size := mesh.size_of(c.after_spec, c.after_labels, c.after_annotations);
    allowed := mesh.setting('resource_max_bytes', c.namespace)::bigint;
    IF size > allowed AND size >= coalesce(mesh.size_of(c.before_spec, c.before_labels, c.before_annotations), 0) THEN
      PERFORM mesh.refuse('MS001', c.kind, c.namespace, c.name, '', format('is %s large, and may be %s at most', mesh.in_words(size), mesh.in_words(allowed)),
        'split it into several; the owner of the mesh may raise the setting resource_max_bytes');
    END IF;
  END LOOP;
END $$;

-- is_limited tells whether quotas hold for who writes: a role that may not write everywhere, or a caller of whom a server says so.
CREATE OR REPLACE FUNCTION mesh.is_limited() RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN coalesce(current_setting('mesh.limited', true), '') = 'on' OR NOT mesh.writes_all();
END $$;

-- namespace_usage is what a namespace has. How much Postgres takes to store it says nothing: it compresses.
CREATE OR REPLACE FUNCTION mesh.namespace_usage(namespace text, OUT resources bigint, OUT bytes bigint)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET jit = off AS $$
BEGIN
  SELECT count(*), coalesce(sum(mesh.size_of(r.spec, r.labels, r.annotations)), 0) INTO resources, bytes
    FROM mesh.resources r WHERE r.namespace = namespace_usage.namespace;
END $$;

-- check_quotas refuses a transaction that leaves a namespace with more than it may have, and more than it had.
CREATE OR REPLACE FUNCTION mesh.check_quotas(of bigint) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  n     record;
  usage record;
BEGIN
  FOR n IN
    SELECT c.namespace, count(*) FILTER (WHERE c.before_spec IS NULL) - count(*) FILTER (WHERE c.after_spec IS NULL) AS more,
      sum(coalesce(pg_column_size(c.after_spec), 0)) AS written
    FROM mesh.changes c WHERE c.transaction_id = of GROUP BY c.namespace
  LOOP
    CONTINUE WHEN n.more <= 0 AND n.written < 65536;
    usage := mesh.namespace_usage(n.namespace);
    PERFORM mesh.refuse_beyond(n.namespace, 'namespace_max_resources', usage.resources, n.more > 0, 'resources', false);
    PERFORM mesh.refuse_beyond(n.namespace, 'namespace_max_bytes', usage.bytes, true, 'of resources', true);
  END LOOP;
END $$;

-- refuse_beyond says which limit is passed, how far, and who may raise it.
CREATE OR REPLACE FUNCTION mesh.refuse_beyond(namespace text, setting text, used bigint, grows boolean, what text, in_bytes boolean) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  allowed bigint := mesh.setting(setting, namespace)::bigint;
BEGIN
  IF grows AND used > allowed THEN
    RAISE EXCEPTION USING ERRCODE = 'MS008',
      MESSAGE = format('the namespace "%s" would have %s %s, and may have %s', namespace, CASE WHEN in_bytes THEN mesh.in_words(used) ELSE used::text END, what,
        CASE WHEN in_bytes THEN mesh.in_words(allowed) ELSE allowed::text END),
      HINT = format('delete some first, or have the owner of the mesh run: INSERT INTO mesh.settings (namespace, name, value) VALUES (%L, %L, …) ON CONFLICT (name, namespace) DO UPDATE SET value = EXCLUDED.value',
        namespace, setting);
  END IF;
END $$;

-- find_quotas lists what the namespaces have that the acting role may read, and what they may have.
CREATE OR REPLACE FUNCTION mesh.find_quotas() RETURNS TABLE (namespace text, resources bigint, max_resources bigint, bytes bigint, max_bytes bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
    SELECT n.namespace, u.resources, mesh.setting('namespace_max_resources', n.namespace)::bigint, u.bytes, mesh.setting('namespace_max_bytes', n.namespace)::bigint
    FROM (SELECT DISTINCT r.namespace FROM mesh.resources r WHERE mesh.sees_all() OR r.namespace = ANY (mesh.readable_namespaces())
        UNION SELECT w FROM unnest(mesh.readable_namespaces()) w) n,
      LATERAL mesh.namespace_usage(n.namespace) u;
END $$;

CREATE OR REPLACE VIEW mesh.quotas AS
  SELECT namespace, resources, max_resources, round(100.0 * resources / max_resources, 1) AS resources_percent,
    bytes, max_bytes, round(100.0 * bytes / max_bytes, 1) AS bytes_percent
  FROM mesh.find_quotas();

COMMENT ON VIEW mesh.quotas IS 'What each namespace has, and what those may make of it who may not write to every namespace. mesh.settings has the limits.';
