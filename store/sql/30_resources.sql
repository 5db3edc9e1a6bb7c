-- The resources as they stand. Everything that people and programs write goes through the triggers
-- of this table.

-- kinds_named lists the kinds that people mean by a word: VirtualService, virtualservices, vs, or any of
-- these with the group, in any case. Of two kinds of a name Istio's is first.
CREATE OR REPLACE FUNCTION mesh_internal.kinds_named(word text) RETURNS SETOF mesh.kinds
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT k.* FROM mesh.kinds k
  WHERE EXISTS (SELECT FROM unnest(ARRAY[k.kind, k.plural] || k.short_names) n WHERE lower(word) IN (lower(n), lower(n) || '.' || k.api_group))
  ORDER BY k.api_group LIKE '%istio.io' DESC, k.api_group
$$;

-- kind_hint names the word for a kind that is near a mistyped one, or else the nearest three kinds.
CREATE OR REPLACE FUNCTION mesh_internal.kind_hint(word text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH names AS (SELECT DISTINCT k.kind FROM mesh.kinds k)
  SELECT coalesce('did you mean "' || mesh_internal.nearest(coalesce(word, ''), (SELECT array_agg(n.kind ORDER BY n.kind COLLATE "C") FROM names n) || ARRAY(SELECT unnest(k.short_names) FROM mesh.kinds k ORDER BY 1)) || '"?',
    format('the nearest are %s; mesh.kinds has all', (SELECT string_agg(n.kind, ', ' ORDER BY n.place) FROM (
      SELECT n.kind, row_number() OVER (ORDER BY position(lower(word) IN lower(n.kind)) = 0, mesh_internal.distance(lower(coalesce(word, '')), lower(n.kind)), n.kind COLLATE "C") AS place FROM names n) n WHERE n.place <= 3)))
$$;

-- named_kind returns the first of the kinds that a word means.
CREATE OR REPLACE FUNCTION mesh_internal.named_kind(word text) RETURNS mesh.kinds
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  named mesh.kinds := (SELECT k FROM mesh_internal.kinds_named(word) k LIMIT 1);
BEGIN
  IF named.kind IS NULL THEN
    PERFORM mesh_internal.refuse('MS002', NULL, NULL, NULL, '', format('unknown kind "%s"', word), mesh_internal.kind_hint(word));
  END IF;
  RETURN named;
END $$;

-- meant_kind is resolve_kind for what people write for a kind.
CREATE OR REPLACE FUNCTION mesh_internal.meant_kind(word text, api_group text) RETURNS mesh.kinds
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  r     mesh.resources;
  named mesh.kinds[] := ARRAY(SELECT k FROM mesh_internal.kinds_named(word) k);
BEGIN
  r.kind := (mesh_internal.named_kind(word)).kind;
  r.api_group := coalesce(meant_kind.api_group, CASE WHEN cardinality(named) = 1 THEN named[1].api_group END);
  RETURN mesh_internal.resolve_kind(r);
END $$;

-- kinds_meant returns the names of kinds for what people write for them. A word with a group would
-- select the kind of the other group as well.
CREATE OR REPLACE FUNCTION mesh_internal.kinds_meant(words text[]) RETURNS text[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  word  text;
  meant text[] := CASE WHEN words IS NOT NULL THEN '{}'::text[] END;
  named mesh.kinds;
BEGIN
  FOREACH word IN ARRAY coalesce(words, '{}') LOOP
    named := mesh_internal.named_kind(word);
    IF word LIKE '%.%' AND (SELECT count(*) FROM mesh.kinds k WHERE k.kind = named.kind) > 1 THEN
      PERFORM mesh_internal.refuse('MS002', NULL, NULL, NULL, '', format('"%s" is one of two kinds of the name %s, which are selected together', word, named.kind),
        format('write %s, and look at the column api_group', named.kind));
    END IF;
    meant := meant || named.kind;
  END LOOP;
  RETURN meant;
END $$;

-- resolve_kind returns the kind. The group may be left out where the name is enough.
CREATE OR REPLACE FUNCTION mesh_internal.resolve_kind(r mesh.resources) RETURNS mesh.kinds
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  known  mesh.kinds;
  groups text[];
BEGIN
  IF r.api_group IS NOT NULL THEN
    SELECT * INTO known FROM mesh.kinds k WHERE k.kind = r.kind AND k.api_group = r.api_group;
    IF FOUND THEN
      RETURN known;
    END IF;
  END IF;
  groups := ARRAY(SELECT k.api_group FROM mesh.kinds k WHERE k.kind = r.kind ORDER BY k.api_group);
  IF cardinality(groups) = 0 THEN
    PERFORM mesh_internal.refuse('MS002', NULL, NULL, NULL, '', format('unknown kind "%s"', r.kind),
      mesh_internal.kind_hint(r.kind));
  ELSIF r.api_group IS NOT NULL THEN
    PERFORM mesh_internal.refuse('MS002', r.kind, r.namespace, r.name, 'api_group', format('unknown api_group "%s" of %s', r.api_group, r.kind),
      'write ' || array_to_string(groups, ' or '));
  ELSIF cardinality(groups) > 1 THEN
    PERFORM mesh_internal.refuse('MS002', r.kind, r.namespace, r.name, 'api_group', format('%s is a kind of more than one group', r.kind),
      'set api_group to ' || array_to_string(groups, ' or '));
  END IF;
  SELECT * INTO known FROM mesh.kinds k WHERE k.kind = r.kind;
  RETURN known;
END $$;

-- is_known reports whether rows may have the kind. A row of another may have come around the triggers, or
-- from a program that knew its kind.
CREATE OR REPLACE FUNCTION mesh_internal.is_known(kind text, api_group text) RETURNS boolean
LANGUAGE sql STABLE AS $$ SELECT EXISTS (SELECT FROM mesh.kinds k WHERE k.kind = is_known.kind AND k.api_group = is_known.api_group) $$;

-- refuse_nulls says which column must not be NULL. Postgres would show the whole row, with columns
-- that nobody wrote.
CREATE OR REPLACE FUNCTION mesh_internal.refuse_nulls(r mesh.resources) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  missing record;
BEGIN
  SELECT c.name, c.hint INTO missing FROM (VALUES
      ('kind', r.kind IS NULL, 'write a kind of mesh.kinds'),
      ('name', r.name IS NULL, 'write a name'),
      ('namespace', r.namespace IS NULL, 'leave it out for default; it is empty for kinds without a namespace'),
      ('spec', r.spec IS NULL, 'write {} for an empty spec'),
      ('labels', r.labels IS NULL, 'leave it out, or write {}, for none'),
      ('annotations', r.annotations IS NULL, 'leave it out, or write {}, for none')) c (name, is_null, hint) WHERE c.is_null LIMIT 1;
  IF FOUND THEN
    RAISE not_null_violation USING HINT = missing.hint, SCHEMA = 'mesh', TABLE = 'resources', COLUMN = missing.name,
      MESSAGE = concat_ws(': ', nullif(concat_ws(' ', r.kind, CASE WHEN r.name IS NOT NULL THEN concat_ws('/', nullif(r.namespace, ''), r.name) END), ''), format('the column %s must not be null', missing.name));
  END IF;
END $$;

-- refuse_duplicate says which resource there is already. It is for views, which Postgres's INSERT …
-- ON CONFLICT does not know; on the table that decides what becomes of a duplicate, after all
-- triggers, and so the name of the constraint has to say it.
CREATE OR REPLACE FUNCTION mesh_internal.refuse_duplicate(of_group text, of_kind text, into_namespace text, of_name text) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  there mesh.resources;
BEGIN
  SELECT r.* INTO there FROM mesh.resources r WHERE r.kind = of_kind AND r.api_group = of_group AND r.name = of_name
    AND r.namespace = (SELECT CASE WHEN k.namespaced THEN into_namespace ELSE '' END FROM mesh.kinds k WHERE k.api_group = of_group AND k.kind = of_kind);
  IF FOUND THEN
    RAISE unique_violation USING MESSAGE = format('%s %s is there already', there.kind, concat_ws('/', nullif(there.namespace, ''), there.name)),
      HINT = 'UPDATE it, or write to the table: INSERT INTO mesh.resources … ON CONFLICT (kind, api_group, namespace, name) DO UPDATE …',
      SCHEMA = 'mesh', TABLE = 'resources', CONSTRAINT = 'resource_exists_already';
  END IF;
END $$;

-- complete_key fills in the missing parts of the key, and checks it.
CREATE OR REPLACE FUNCTION mesh_internal.complete_key() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  known    mesh.kinds;
  problems mesh_internal.problem[];
BEGIN
  IF NEW.kind IS NULL OR NEW.name IS NULL OR NEW.namespace IS NULL OR NEW.spec IS NULL OR NEW.labels IS NULL OR NEW.annotations IS NULL THEN
    PERFORM mesh_internal.refuse_nulls(NEW);
  END IF;
  known := mesh_internal.resolve_kind(NEW);
  NEW.api_group := known.api_group;
  IF NOT known.namespaced THEN
    NEW.namespace := '';
  END IF;
  problems := ARRAY(SELECT (path, reason, hint)::mesh_internal.problem FROM (VALUES
    (NEW.name = '', 'metadata.name', 'must not be empty', NULL),
    (NEW.name <> '' AND NOT mesh_internal.is_name(NEW.name), 'metadata.name', format('"%s" is not a valid name', NEW.name), mesh_internal.name_hint()),
    (known.namespaced AND NEW.namespace = '', 'metadata.namespace', 'must not be empty', NULL),
    (known.api_group = 'core' AND NEW.namespace <> mesh_internal.mesh_namespace(), 'metadata.namespace',
      format('a %s configures the whole mesh, and counts in the namespace "%s" alone', known.kind, mesh_internal.mesh_namespace()), 'write ' || mesh_internal.mesh_namespace()),
    (NEW.namespace <> '' AND (char_length(NEW.namespace) > 63 OR NEW.namespace !~ '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'),
      'metadata.namespace', format('"%s" is not a valid namespace', NEW.namespace),
      'at most 63 lower-case letters, digits and "-", the first and the last a letter or digit')
    ) checks (wrong, path, reason, hint) WHERE wrong);
  IF problems <> '{}' THEN
    PERFORM mesh_internal.refuse('23514', NEW.kind, NEW.namespace, NEW.name, problems);
  END IF;
  IF TG_OP = 'INSERT' THEN
    NEW.rules := known.rules; -- the resource will be checked, or the transaction fails
    NEW.generation := 1;
    NEW.created_at := now();
    NEW.updated_at := now();
    NEW.xid := pg_current_xact_id();
  END IF;
  RETURN NEW;
END $$;

DROP TRIGGER IF EXISTS complete_key_of_new ON mesh.resources;
CREATE TRIGGER complete_key_of_new BEFORE INSERT ON mesh.resources
  FOR EACH ROW EXECUTE FUNCTION mesh_internal.complete_key();

DROP TRIGGER IF EXISTS complete_key_of_renamed ON mesh.resources;
CREATE TRIGGER complete_key_of_renamed BEFORE UPDATE OF api_group, kind, namespace, name ON mesh.resources
  FOR EACH ROW WHEN ((OLD.api_group, OLD.kind, OLD.namespace, OLD.name) IS DISTINCT FROM (NEW.api_group, NEW.kind, NEW.namespace, NEW.name))
  EXECUTE FUNCTION mesh_internal.complete_key();

-- stamp_row sets the columns that nobody sets by hand, and refuses attempts to. Writing back what
-- was read is fine, as many an ORM does. correct_repeated corrects a transaction that changes a
-- resource more than once. A resource that was not checked, or broke the rules, has the rules 0:
-- for it, checking the changes is not enough.
CREATE OR REPLACE FUNCTION mesh_internal.stamp_row() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF current_setting('mesh.numbering', true) <> '' THEN -- record_update asks whether that may be so
    RETURN NEW;
  ELSIF NEW.spec IS NULL OR NEW.labels IS NULL OR NEW.annotations IS NULL THEN -- the key is looked at above
    PERFORM mesh_internal.refuse_nulls(NEW);
  ELSIF (OLD.generation, OLD.created_at, OLD.updated_at, OLD.rules, OLD.xid) IS DISTINCT FROM (NEW.generation, NEW.created_at, NEW.updated_at, NEW.rules, NEW.xid) THEN
    PERFORM mesh_internal.refuse('MS003', OLD.kind, OLD.namespace, OLD.name, '', 'generation, created_at, updated_at, rules and xid are set by themselves',
      'leave them out of the UPDATE');
  ELSIF (OLD.name, OLD.namespace, OLD.kind, OLD.api_group) IS DISTINCT FROM (NEW.name, NEW.namespace, NEW.kind, NEW.api_group) THEN
    NEW.generation := 1; -- one resource less, and one more
    NEW.created_at := now();
  ELSIF OLD.spec IS DISTINCT FROM NEW.spec THEN
    NEW.generation := OLD.generation + 1;
  ELSIF (OLD.labels, OLD.annotations) IS NOT DISTINCT FROM (NEW.labels, NEW.annotations) THEN
    RETURN NEW;
  END IF;
  IF OLD.rules = 0 THEN
    NEW.rules := mesh_internal.rules_kept(NEW);
  END IF;
  NEW.updated_at := now();
  NEW.xid := pg_current_xact_id();
  RETURN NEW;
END $$;

-- rules_kept returns the current rules if a resource keeps them, and raises an error otherwise.
CREATE OR REPLACE FUNCTION mesh_internal.rules_kept(r mesh.resources) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  problems mesh_internal.problem[] := ARRAY(SELECT p FROM mesh_internal.resource_problems(r) p LIMIT 20);
BEGIN
  IF problems <> '{}' THEN
    PERFORM mesh_internal.refuse('23514', r.kind, r.namespace, r.name, problems);
  END IF;
  RETURN mesh_internal.current_rules();
END $$;

DROP TRIGGER IF EXISTS stamp_row ON mesh.resources;
CREATE TRIGGER stamp_row BEFORE UPDATE ON mesh.resources FOR EACH ROW EXECUTE FUNCTION mesh_internal.stamp_row();

-- revision_of returns the revision that last changed a resource; NULL if that is the running
-- transaction.
CREATE OR REPLACE FUNCTION mesh_internal.revision_of(r mesh.resources) RETURNS bigint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN (SELECT t.revision FROM mesh_internal.transactions t WHERE t.xid = r.xid AND t.begun_at = r.updated_at);
END $$;

CREATE OR REPLACE FUNCTION mesh_internal.refuse_truncate() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM mesh_internal.refuse('MS003', NULL, NULL, NULL, '', 'mesh.resources cannot be truncated, for that leaves no trace of what was there',
    'write DELETE FROM mesh.resources, which is one revision and can be taken back');
  RETURN NULL;
END $$;

DROP TRIGGER IF EXISTS refuse_truncate ON mesh.resources;
CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON mesh.resources
  FOR EACH STATEMENT EXECUTE FUNCTION mesh_internal.refuse_truncate();
