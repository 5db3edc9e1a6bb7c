-- The resources as they stand. Everything that people and programs write goes through the triggers
-- of this table.

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
      mesh_internal.hint(r.kind, ARRAY(SELECT k.kind FROM mesh.kinds k GROUP BY k.kind ORDER BY k.kind COLLATE "C"), 'known kinds: '));
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

-- complete_key fills in the missing parts of the key, and checks it.
CREATE OR REPLACE FUNCTION mesh_internal.complete_key() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  known    mesh.kinds := mesh_internal.resolve_kind(NEW);
  problems mesh_internal.problem[];
BEGIN
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
    PERFORM mesh_internal.refuse('MS001', NEW.kind, NEW.namespace, NEW.name, problems);
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
    PERFORM mesh_internal.refuse('MS001', r.kind, r.namespace, r.name, problems);
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
