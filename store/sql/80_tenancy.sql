-- Roles are granted namespaces. A grant is a row that the functions of 12_access.sql read, and
-- plain privileges on both schemas, so a new role needs nothing else.

CREATE OR REPLACE VIEW mesh.grants WITH (security_barrier) AS
  SELECT role, namespace, privilege || CASE WHEN secrets THEN ' secrets' ELSE '' END AS privilege, granted_by, granted_at, held AS in_force
  FROM mesh_internal.every_grant
  WHERE (SELECT mesh_internal.speaks_for_others()) OR held AND pg_has_role((SELECT mesh_internal.acting_role()), role_id, 'USAGE');

COMMENT ON VIEW mesh.grants IS 'Which role may read or write which namespace. mesh.grant_namespace and mesh.revoke_namespace change it. Roles other than the owner see their own grants.';
COMMENT ON COLUMN mesh.grants.role IS 'The role, whose members have the grant too.';
COMMENT ON COLUMN mesh.grants.namespace IS 'A namespace; * for all, or empty for what belongs to no namespace.';
COMMENT ON COLUMN mesh.grants.privilege IS 'read; write, which includes read; read secrets; write secrets, which includes those; or server, which mcp-server needs and which includes all others.';
COMMENT ON COLUMN mesh.grants.granted_by IS 'Which role granted it.';
COMMENT ON COLUMN mesh.grants.granted_at IS 'When.';
COMMENT ON COLUMN mesh.grants.in_force IS 'Whether it gives anything. Not if the role that it was made for was dropped, though there may be another of that name: mesh.revoke_all(role) clears it.';

-- tables_of_tenants lists the privileges on tables and views that a tenant needs, with the columns that
-- they are for, if not for all. Tables with row-level security are open to everybody, as far as it lets
-- them, and writable if they have a policy for that. Of the other tables only those are open that
-- describe kinds.
--
-- Whoever may delete from a table, or change it as a whole, may also lock it, and with it
-- everybody. So tenants get privileges on single columns, which do not count for that, and delete
-- through views and functions.
CREATE OR REPLACE FUNCTION mesh_internal.tables_of_tenants(server boolean) RETURNS TABLE (relation regclass, privilege text, columns name[])
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT 'mesh_internal.transactions'::regclass, 'SELECT', '{revision,xid,begun_at}'::name[] WHERE NOT server -- by which mesh_internal.visible_resources finds the revision
  UNION ALL
  SELECT c.oid, p.privilege, CASE WHEN w.written AND NOT server AND p.privilege <> 'SELECT' THEN
      ARRAY(SELECT a.attname FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum) END
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspowner = c.relowner, -- what is somebody else's is theirs to grant
    LATERAL (SELECT c.relkind = 'r' AND EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = c.oid AND p.polcmd <> 'r') AS written,
      (SELECT coalesce(bit_or(t.tgtype), 0::smallint) FROM pg_trigger t WHERE t.tgrelid = c.oid AND c.relkind = 'v' AND t.tgname NOT IN ('refuse_row', 'refuse_statement')) AS replaced) w,
    LATERAL (VALUES ('SELECT', server OR c.relkind = 'v' OR c.relrowsecurity OR c.relname = ANY (mesh_internal.public_tables())),
      ('INSERT', w.written OR w.replaced & 4 > 0), ('UPDATE', w.written OR w.replaced & 16 > 0), ('DELETE', w.written AND server OR w.replaced & 8 > 0)) p (privilege, needed)
  WHERE n.nspname IN ('mesh', 'mesh_internal') AND c.relkind IN ('r', 'v') AND p.needed
    AND (server OR c.oid = ANY ((SELECT mesh_internal.views_of_users())::regclass[]) OR c.relrowsecurity OR c.relname = ANY (mesh_internal.public_tables()))
$$;

-- routines_of_tenants lists the functions that a tenant must be able to execute. They guard themselves. What
-- somebody else has put into the schema is theirs to grant.
CREATE OR REPLACE FUNCTION mesh_internal.routines_of_tenants(server boolean) RETURNS regprocedure[]
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT ARRAY(SELECT p.oid::regprocedure FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace AND n.nspowner = p.proowner WHERE n.nspname = 'mesh' OR server AND n.nspname = 'mesh_internal')
    || CASE WHEN NOT server THEN mesh_internal.run_by_callers() END
$$;

-- privileges_of_tenants lists the privileges that a tenant needs, as GRANT takes them.
CREATE OR REPLACE FUNCTION mesh_internal.privileges_of_tenants(server boolean) RETURNS SETOF text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT 'USAGE ON SCHEMA mesh, mesh_internal'
  UNION ALL
  SELECT 'EXECUTE ON ROUTINE ' || array_to_string(mesh_internal.routines_of_tenants(server), ', ')
  UNION ALL
  SELECT format('%s ON %s', string_agg(concat(t.privilege, (SELECT ' (' || string_agg(quote_ident(c), ', ') || ')' FROM unnest(t.columns) c)), ', '), t.relation)
    FROM mesh_internal.tables_of_tenants(server) t GROUP BY t.relation
$$;

-- public_tables lists the tables that say nothing about anybody's resources.
CREATE OR REPLACE FUNCTION mesh_internal.public_tables() RETURNS text[]
LANGUAGE sql IMMUTABLE AS $$
  SELECT '{kinds,schema_version,schema_types,schema_fields,schema_parts,formats,rules,editable_views,editable_columns}'::text[]
$$;

-- views_of_users lists the views for users: those in mesh that are not deprecated, nor somebody else's.
CREATE OR REPLACE FUNCTION mesh_internal.views_of_users() RETURNS regclass[]
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT ARRAY(SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspowner = c.relowner WHERE n.nspname = 'mesh' AND c.relkind = 'v' AND (obj_description(c.oid, 'pg_class') LIKE 'Deprecated%') IS NOT TRUE)
$$;

-- run_by_callers lists the functions of mesh_internal that tenants must be able to execute. If a
-- view, a policy, a condition of a trigger or a default calls a function, Postgres checks the
-- rights of whoever runs the statement, and again for what that function calls, unless it is
-- SECURITY DEFINER. The catalog has the calls of views and the like; those of functions are found
-- in their text.
CREATE OR REPLACE FUNCTION mesh_internal.run_by_callers() RETURNS regprocedure[]
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH RECURSIVE ours AS MATERIALIZED (
    SELECT p.oid, p.proname AS name, CASE WHEN p.prosecdef THEN '' ELSE p.prosrc END AS text FROM pg_proc p WHERE p.pronamespace = ANY ('{mesh,mesh_internal}'::regnamespace[])
    UNION ALL
    SELECT c.oid, c.relname, '' FROM pg_class c WHERE c.relnamespace = ANY ('{mesh,mesh_internal}'::regnamespace[]) AND c.relkind = 'v'
  ), calls AS MATERIALIZED (
    SELECT o.oid AS caller, called.oid AS called
    FROM ours o, unnest((string_to_array(o.text, 'mesh_internal.'))[2:]) piece JOIN ours called ON called.name = substring(piece FROM '^\w+')
    UNION
    SELECT r.ev_class, d.refobjid FROM ours o JOIN pg_rewrite r ON r.ev_class = o.oid JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
    WHERE d.refclassid IN ('pg_proc'::regclass, 'pg_class'::regclass)
  ), run (oid) AS (
    SELECT v::oid FROM unnest(mesh_internal.views_of_users()) v
    UNION
    SELECT p.oid FROM pg_proc p WHERE p.pronamespace = 'mesh'::regnamespace AND (obj_description(p.oid, 'pg_proc') LIKE 'Deprecated%') IS NOT TRUE
    UNION
    SELECT d.refobjid FROM pg_class c, LATERAL (
        SELECT 'pg_policy'::regclass, p.oid FROM pg_policy p WHERE p.polrelid = c.oid
        UNION ALL SELECT 'pg_trigger'::regclass, t.oid FROM pg_trigger t WHERE t.tgrelid = c.oid
        UNION ALL SELECT 'pg_attrdef'::regclass, a.oid FROM pg_attrdef a WHERE a.adrelid = c.oid
        UNION ALL SELECT 'pg_constraint'::regclass, o.oid FROM pg_constraint o WHERE o.conrelid = c.oid
        UNION ALL SELECT 'pg_class'::regclass, i.indexrelid FROM pg_index i WHERE i.indrelid = c.oid) part (class, oid),
      pg_depend d
    WHERE c.relnamespace = 'mesh'::regnamespace AND d.classid = part.class AND d.objid = part.oid AND d.refclassid = 'pg_proc'::regclass
    UNION
    SELECT c.called FROM run JOIN calls c ON c.caller = run.oid
  )
  SELECT ARRAY(SELECT p.oid FROM run JOIN pg_proc p ON p.oid = run.oid
    WHERE p.pronamespace = 'mesh_internal'::regnamespace AND p.prorettype <> 'trigger'::regtype ORDER BY p.proname)
$$;

-- is_owner reports whether a role owns the mesh. Its members do not, though they may do as much.
CREATE OR REPLACE FUNCTION mesh_internal.is_owner(role text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT EXISTS (SELECT FROM pg_namespace n WHERE n.nspname IN ('mesh', 'mesh_internal') AND n.nspowner = to_regrole(quote_ident(role))::oid)
$$;

-- refuse_owner refuses to grant the owner something, or to revoke it: it would lose what it has as the
-- owner, and with it the mesh its server.
CREATE OR REPLACE FUNCTION mesh_internal.refuse_owner(role text, ending text) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF mesh_internal.is_owner(role) THEN
    RAISE invalid_grant_operation USING MESSAGE = format('%s owns the mesh and %s', quote_ident(role), ending),
      HINT = 'grants are for other roles; whoever is to have less must not be the owner, nor a member of it';
  END IF;
END $$;

-- tell_of_needless_grant says that a grant gives nothing as long as its role is a superuser, or a
-- member of the owner.
CREATE OR REPLACE FUNCTION mesh_internal.tell_of_needless_grant(role text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF pg_has_role(role::name, current_user, 'USAGE') THEN
    RAISE NOTICE 'the role % may do everything without it, as a %', quote_ident(role),
      CASE WHEN (SELECT rolsuper FROM pg_roles WHERE rolname = role) THEN 'superuser' ELSE format('member of %I, which owns the mesh', current_user) END;
  END IF;
END $$;

-- revoke_everything revokes what roles, as SQL has them, may do with the objects of the mesh. If somebody else
-- has put one there, it is left to them.
CREATE OR REPLACE FUNCTION mesh_internal.revoke_everything(roles text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  object text;
BEGIN
  EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA mesh, mesh_internal FROM %1$s; REVOKE ALL ON ALL ROUTINES IN SCHEMA mesh, mesh_internal FROM %1$s', roles);
EXCEPTION WHEN insufficient_privilege THEN
  FOR object IN
    SELECT 'TABLE ' || c.oid::regclass FROM pg_class c WHERE c.relnamespace = ANY ('{mesh,mesh_internal}'::regnamespace[]) AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND pg_has_role(c.relowner, 'MEMBER')
    UNION ALL SELECT 'ROUTINE ' || p.oid::regprocedure FROM pg_proc p WHERE p.pronamespace = ANY ('{mesh,mesh_internal}'::regnamespace[]) AND pg_has_role(p.proowner, 'MEMBER')
  LOOP
    EXECUTE format('REVOKE ALL ON %s FROM %s', object, roles);
  END LOOP;
END $$;

-- set_privileges grants a role the plain privileges that its grants need, and revokes all others. The
-- owner may have grants of a time when it was not the owner.
CREATE OR REPLACE FUNCTION mesh_internal.set_privileges(role text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  server boolean := (SELECT bool_or(g.privilege = 'server') FROM mesh_internal.every_grant g WHERE g.role = set_privileges.role);
  line   text;
BEGIN
  IF mesh_internal.is_owner(role) THEN
    RETURN;
  END IF;
  PERFORM mesh_internal.revoke_everything(quote_ident(role));
  EXECUTE format('REVOKE ALL ON SCHEMA mesh, mesh_internal FROM %I', role);
  IF server IS NULL THEN
    RETURN;
  END IF;
  FOR line IN SELECT * FROM mesh_internal.privileges_of_tenants(server) LOOP
    EXECUTE format('GRANT %s TO %I', line, role);
  END LOOP;
END $$;

-- holds_grants reports whether the grants of a role are its own, and not those of a former role of
-- its name.
CREATE OR REPLACE FUNCTION mesh_internal.holds_grants(role text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT EXISTS (SELECT FROM mesh_internal.every_grant g WHERE g.role = holds_grants.role AND g.held)
$$;

-- regain_privileges gives roles what their grants call for if the mesh was restored from a dump without
-- privileges. The schema has no list of privileges then, as otherwise only before the first grant.
CREATE OR REPLACE FUNCTION mesh_internal.regain_privileges() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF (SELECT nspacl FROM pg_namespace WHERE nspname = 'mesh_internal') IS NULL THEN
    PERFORM mesh_internal.set_privileges(g.role) FROM (SELECT DISTINCT role FROM mesh_internal.every_grant WHERE role_id IS NOT NULL) g;
  END IF;
END $$;

-- lacked_privileges lists what roles with grants lack of the privileges that these need, as after a
-- REVOKE, or after a dump of which some GRANTs failed. What others have added is not looked at.
CREATE OR REPLACE FUNCTION mesh_internal.lacked_privileges() RETURNS TABLE (role text, privilege text, object text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH roles AS MATERIALIZED (
    SELECT g.role, g.role_id AS oid, bool_or(g.privilege = 'server') AS server FROM mesh_internal.every_grant g WHERE g.held AND NOT mesh_internal.is_owner(g.role) GROUP BY g.role, g.role_id
  ), made AS MATERIALIZED (SELECT i.kind, i.name FROM mesh_internal.installed_objects i WHERE i.state <> 'foreign'),
  tables AS MATERIALIZED (
    SELECT s.server, t.*, t.relation::text AS name FROM (SELECT DISTINCT server FROM roles) s, mesh_internal.tables_of_tenants(s.server) t
    WHERE EXISTS (SELECT FROM made m WHERE m.kind IN ('table', 'view') AND m.name = t.relation::text)
  ), columns AS MATERIALIZED (
    SELECT t.server, t.relation, t.privilege, t.name, c FROM tables t, unnest(t.columns) c WHERE EXISTS (SELECT FROM made m WHERE m.kind = 'column' AND m.name = format('%s.%I', t.name, c))
  ), routines AS MATERIALIZED (
    SELECT s.server, f AS routine, f::text AS name FROM (SELECT DISTINCT server FROM roles) s, unnest(mesh_internal.routines_of_tenants(s.server)) f
    WHERE EXISTS (SELECT FROM made m WHERE m.kind = 'function' AND m.name = f::text)
  )
  SELECT r.role, 'USAGE', 'mesh' FROM roles r WHERE NOT has_schema_privilege(r.oid, 'mesh', 'USAGE')
  UNION ALL
  SELECT r.role, t.privilege, t.name FROM roles r JOIN tables t USING (server) WHERE t.columns IS NULL AND NOT has_table_privilege(r.oid, t.relation, t.privilege)
  UNION
  SELECT r.role, c.privilege, c.name FROM roles r JOIN columns c USING (server) WHERE NOT has_column_privilege(r.oid, c.relation, c.c, c.privilege)
  UNION ALL
  SELECT r.role, 'EXECUTE', f.name FROM roles r JOIN routines f USING (server) WHERE NOT has_function_privilege(r.oid, f.routine, 'EXECUTE')
$$;

-- told_grants says of which roles the grants give nothing, or less than they should.
CREATE OR REPLACE FUNCTION mesh_internal.told_grants() RETURNS TABLE (role text, difference text, advice text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH restored AS (SELECT n.nspacl IS NULL AS bare FROM pg_namespace n WHERE n.nspname = 'mesh_internal') -- see mesh_internal.regain_privileges
  SELECT g.role, CASE WHEN NOT g.present THEN 'are of a role that is not there, and give nothing: it was dropped or renamed, or was missing at a restore'
      WHEN r.bare THEN 'give nothing: the privileges that come with them were not restored'
      ELSE 'are of a role that was dropped or renamed, or was missing at a restore, and give nothing: another role has its name now' END,
    CASE WHEN NOT g.present THEN format('run: SELECT mesh.revoke_all(%L); or, if the role is to come back, note what mesh.grants lists, for the first grant forgets it, create the role, and grant it all anew', g.role)
      WHEN r.bare THEN 'run mcp-server migrate up, which grants them again'
      ELSE format('run: SELECT mesh.revoke_all(%L); grant anew what is meant for the role of today', g.role) END
  FROM (SELECT DISTINCT e.role, e.role_id IS NOT NULL AS present FROM mesh_internal.every_grant e WHERE NOT e.held AND NOT mesh_internal.is_owner(e.role)) g, restored r
  UNION ALL
  SELECT l.role, format('give less than they should: the role lacks %s on %s%s', (array_agg(l.privilege ORDER BY l.object, l.privilege))[1], min(l.object),
      CASE WHEN count(*) > 1 THEN format(', and %s more privileges', count(*) - 1) ELSE '' END),
    'run mcp-server migrate up, which grants it again'
  FROM mesh_internal.lacked_privileges() l GROUP BY l.role
  ORDER BY 1
$$;

-- forget_namesake deletes what a former role of the name was granted, before a role gets grants.
CREATE OR REPLACE FUNCTION mesh_internal.forget_namesake(role text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM mesh_internal.regain_privileges();
  IF NOT mesh_internal.holds_grants(role) AND EXISTS (SELECT FROM mesh_internal.every_grant g WHERE g.role = forget_namesake.role) THEN
    DELETE FROM mesh_internal.namespace_grants g WHERE g.role = forget_namesake.role;
    DELETE FROM mesh_internal.secret_grants g WHERE g.role = forget_namesake.role;
    RAISE NOTICE 'what a former role % was granted is forgotten', quote_ident(role);
  END IF;
END $$;

-- refresh_privileges runs at the end of a migration, after its objects were noted. New objects have
-- Postgres's default privileges, and so has everything that was restored from a dump without privileges.
CREATE OR REPLACE FUNCTION mesh_internal.refresh_privileges() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  roles text[];
BEGIN
  PERFORM mesh_internal.regain_privileges();
  roles := ARRAY(SELECT DISTINCT role FROM mesh_internal.every_grant WHERE held AND NOT mesh_internal.is_owner(role));
  IF EXISTS (SELECT FROM pg_proc WHERE pronamespace = ANY ('{mesh,mesh_internal}'::regnamespace[]) AND proacl IS NULL)
    OR EXISTS (SELECT FROM pg_class WHERE relnamespace = ANY ('{mesh,mesh_internal}'::regnamespace[]) AND relkind IN ('r', 'v') AND relacl IS NULL)
    OR EXISTS (SELECT FROM mesh_internal.lacked_privileges())
    OR EXISTS (SELECT FROM mesh_internal.namespace_grants g WHERE g.role = ANY (roles) AND g.privilege <> 'server' AND has_table_privilege(g.role, 'mesh.resources', 'DELETE')) THEN
    PERFORM mesh_internal.revoke_everything('PUBLIC');
    PERFORM mesh_internal.set_privileges(role) FROM unnest(roles) role;
  END IF;
END $$;

-- check_grant refuses a grant that would do nothing, or not what was meant.
CREATE OR REPLACE FUNCTION mesh_internal.check_grant(role text, namespace text) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF to_regrole(quote_ident(role)) IS NULL THEN
    RAISE undefined_object USING MESSAGE = format('there is no role %s', coalesce(quote_ident(role), 'NULL')),
      HINT = CASE WHEN role = 'public' THEN 'grant to a role, and make others members of it' WHEN role IS NOT NULL THEN format('CREATE ROLE %I LOGIN', role) ELSE 'name one' END;
  ELSIF (namespace IN ('', '*') OR char_length(namespace) <= 63 AND namespace ~ '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') IS NOT TRUE THEN
    RAISE invalid_parameter_value USING MESSAGE = format('%L is not a valid namespace', namespace),
      HINT = 'name one; write * for all, and an empty string for what belongs to no namespace';
  END IF;
  PERFORM mesh_internal.refuse_owner(role, 'needs no grant'), mesh_internal.tell_of_needless_grant(role);
END $$;

-- add_grant adds to the grants of a role. A lesser privilege than it has changes nothing.
CREATE OR REPLACE FUNCTION mesh_internal.add_grant(role text, namespace text, privilege text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM mesh_internal.check_grant(role, namespace);
  PERFORM mesh_internal.forget_namesake(role);
  INSERT INTO mesh_internal.namespace_grants AS g (role, namespace, privilege, granted_by)
  VALUES (role, namespace, privilege, mesh_internal.acting_role())
  ON CONFLICT ON CONSTRAINT namespace_grants_pkey DO UPDATE
    SET privilege = EXCLUDED.privilege, granted_by = EXCLUDED.granted_by, granted_at = now()
    WHERE array_position('{read,write,server}', g.privilege) < array_position('{read,write,server}', EXCLUDED.privilege);
  PERFORM mesh_internal.set_privileges(role);
END $$;

CREATE OR REPLACE FUNCTION mesh.grant_namespace(role text, namespace text, privilege text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM mesh_internal.require_owner('grant namespaces');
  IF (privilege IN ('read', 'write')) IS NOT TRUE THEN
    RAISE invalid_parameter_value USING MESSAGE = format('%L is not a privilege on a namespace', privilege), HINT = 'write read or write';
  END IF;
  PERFORM mesh_internal.add_grant(role, namespace, privilege);
END $$;

COMMENT ON FUNCTION mesh.grant_namespace IS 'Lets a role and its members read or write the resources of a namespace, of all namespaces (*), or of kinds without a namespace (an empty string).';

CREATE OR REPLACE FUNCTION mesh.revoke_namespace(role text, namespace text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  revoked boolean;
  held    boolean := mesh_internal.holds_grants(role);
BEGIN
  PERFORM mesh_internal.require_owner('revoke namespaces'), mesh_internal.refuse_owner(role, 'has what it has by that');
  DELETE FROM mesh_internal.namespace_grants g WHERE g.role = revoke_namespace.role AND g.namespace = revoke_namespace.namespace;
  revoked := FOUND;
  IF held THEN
    PERFORM mesh_internal.set_privileges(role);
  END IF;
  IF EXISTS (SELECT FROM mesh_internal.namespace_grants g WHERE g.role = revoke_namespace.role AND g.namespace = '*') THEN
    RAISE NOTICE 'the role % still has what was granted to it on all namespaces (*)', quote_ident(role);
  END IF;
  RETURN revoked;
END $$;

COMMENT ON FUNCTION mesh.revoke_namespace IS 'Takes back a grant of mesh.grant_namespace, and returns whether there was one.';

CREATE OR REPLACE FUNCTION mesh.grant_server(role text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM mesh_internal.require_owner('appoint servers');
  PERFORM mesh_internal.add_grant(role, '*', 'server');
END $$;

COMMENT ON FUNCTION mesh.grant_server IS 'Lets a role do what mcp-server needs if it does not connect as the owner: read and write everything, on behalf of others. mesh.revoke_namespace(role, ''*'') takes it back.';

-- What a role may only read it cannot lock either, with SELECT … FOR UPDATE for instance. An UPDATE
-- of the table skips it; the views refuse it.
DROP POLICY IF EXISTS read_granted ON mesh.resources;
CREATE POLICY read_granted ON mesh.resources FOR SELECT
  USING ((SELECT mesh_internal.sees_all()) OR namespace = ANY ((SELECT mesh_internal.readable_namespaces())::text[]));

DROP POLICY IF EXISTS insert_granted ON mesh.resources;
CREATE POLICY insert_granted ON mesh.resources FOR INSERT
  WITH CHECK ((SELECT mesh_internal.writes_all()) OR namespace = ANY ((SELECT mesh_internal.writable_namespaces())::text[]) OR mesh_internal.require_write(namespace));

DROP POLICY IF EXISTS update_granted ON mesh.resources;
CREATE POLICY update_granted ON mesh.resources FOR UPDATE
  USING ((SELECT mesh_internal.writes_all()) OR namespace = ANY ((SELECT mesh_internal.writable_namespaces())::text[]))
  WITH CHECK ((SELECT mesh_internal.writes_all()) OR namespace = ANY ((SELECT mesh_internal.writable_namespaces())::text[]) OR mesh_internal.require_write(namespace));

DROP POLICY IF EXISTS delete_granted ON mesh.resources;
CREATE POLICY delete_granted ON mesh.resources FOR DELETE
  USING ((SELECT mesh_internal.writes_all()) OR namespace = ANY ((SELECT mesh_internal.writable_namespaces())::text[]));

-- check_access refuses writes to namespaces that are not the acting role's. Row-level security does
-- not check where a deleted or renamed row comes from, and checks nothing in functions that run as
-- the owner.
CREATE OR REPLACE FUNCTION mesh_internal.check_access() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF TG_OP <> 'INSERT' THEN
    PERFORM mesh_internal.require_write(VARIADIC ARRAY(SELECT DISTINCT namespace FROM old_rows));
  END IF;
  IF TG_OP <> 'DELETE' THEN
    PERFORM mesh_internal.require_write(VARIADIC ARRAY(SELECT DISTINCT namespace FROM new_rows));
  END IF;
  RETURN NULL;
END $$;

-- check_mesh_access lets only roles that may write to every namespace change what configures the
-- whole mesh. Such resources in other namespaces do not count, and may be deleted.
CREATE OR REPLACE FUNCTION mesh_internal.check_mesh_access() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF TG_OP <> 'INSERT' AND OLD.namespace = mesh_internal.mesh_namespace() OR TG_OP <> 'DELETE' AND NEW.namespace = mesh_internal.mesh_namespace() THEN
    PERFORM mesh_internal.require_mesh(coalesce(NEW.kind, OLD.kind));
  END IF;
  RETURN NULL;
END $$;

DROP TRIGGER IF EXISTS check_mesh_access_to_inserted ON mesh.resources;
CREATE TRIGGER check_mesh_access_to_inserted AFTER INSERT ON mesh.resources
  FOR EACH ROW WHEN (NEW.api_group = 'core' AND NOT mesh_internal.writes_all()) EXECUTE FUNCTION mesh_internal.check_mesh_access();

DROP TRIGGER IF EXISTS check_mesh_access_to_updated ON mesh.resources;
CREATE TRIGGER check_mesh_access_to_updated AFTER UPDATE ON mesh.resources
  FOR EACH ROW WHEN ((NEW.api_group = 'core' OR OLD.api_group = 'core') AND NOT mesh_internal.writes_all()) EXECUTE FUNCTION mesh_internal.check_mesh_access();

DROP TRIGGER IF EXISTS check_mesh_access_to_deleted ON mesh.resources;
CREATE TRIGGER check_mesh_access_to_deleted AFTER DELETE ON mesh.resources
  FOR EACH ROW WHEN (OLD.api_group = 'core' AND NOT mesh_internal.writes_all()) EXECUTE FUNCTION mesh_internal.check_mesh_access();

DROP TRIGGER IF EXISTS check_access_to_inserted ON mesh.resources;
CREATE TRIGGER check_access_to_inserted AFTER INSERT ON mesh.resources
  REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT WHEN (NOT mesh_internal.writes_all()) EXECUTE FUNCTION mesh_internal.check_access();

DROP TRIGGER IF EXISTS check_access_to_updated ON mesh.resources;
CREATE TRIGGER check_access_to_updated AFTER UPDATE ON mesh.resources
  REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT WHEN (NOT mesh_internal.writes_all()) EXECUTE FUNCTION mesh_internal.check_access();

DROP TRIGGER IF EXISTS check_access_to_deleted ON mesh.resources;
CREATE TRIGGER check_access_to_deleted AFTER DELETE ON mesh.resources
  REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT WHEN (NOT mesh_internal.writes_all()) EXECUTE FUNCTION mesh_internal.check_access();

-- The settings of the whole mesh apply to everybody, so everybody may read them.
DROP POLICY IF EXISTS read_granted ON mesh.settings;
CREATE POLICY read_granted ON mesh.settings FOR SELECT
  USING (namespace = '' OR (SELECT mesh_internal.sees_all()) OR namespace = ANY ((SELECT mesh_internal.readable_namespaces())::text[]));

DROP POLICY IF EXISTS insert_granted ON mesh.settings;
CREATE POLICY insert_granted ON mesh.settings FOR INSERT
  WITH CHECK ((SELECT mesh_internal.writes_all()) OR namespace = ANY ((SELECT mesh_internal.writable_namespaces())::text[]) OR mesh_internal.require_write(namespace));

DROP POLICY IF EXISTS update_granted ON mesh.settings;
CREATE POLICY update_granted ON mesh.settings FOR UPDATE
  USING ((SELECT mesh_internal.writes_all()) OR namespace = ANY ((SELECT mesh_internal.writable_namespaces())::text[]))
  WITH CHECK ((SELECT mesh_internal.writes_all()) OR namespace = ANY ((SELECT mesh_internal.writable_namespaces())::text[]) OR mesh_internal.require_write(namespace));

DROP POLICY IF EXISTS delete_granted ON mesh.settings;
CREATE POLICY delete_granted ON mesh.settings FOR DELETE
  USING ((SELECT mesh_internal.writes_all()) OR namespace = ANY ((SELECT mesh_internal.writable_namespaces())::text[]));

-- reset_setting removes a value, and reports whether there was one. The value of the mesh, or the
-- default, counts again.
CREATE OR REPLACE FUNCTION mesh.reset_setting(name text, namespace text DEFAULT '') RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM mesh_internal.require_write(namespace);
  IF (mesh_internal.known_setting(name)).limits THEN
    PERFORM mesh_internal.require_limits(name);
  END IF;
  DELETE FROM mesh.settings s WHERE s.name = reset_setting.name AND s.namespace = reset_setting.namespace;
  RETURN FOUND;
END $$;

COMMENT ON FUNCTION mesh.reset_setting IS 'Removes the value of a setting for a namespace, or for the whole mesh, and returns whether there was one. The value of the mesh, or the default, then counts.';

DROP TRIGGER IF EXISTS check_access_to_inserted ON mesh.settings;
CREATE TRIGGER check_access_to_inserted AFTER INSERT ON mesh.settings
  REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT WHEN (NOT mesh_internal.writes_all()) EXECUTE FUNCTION mesh_internal.check_access();

DROP TRIGGER IF EXISTS check_access_to_updated ON mesh.settings;
CREATE TRIGGER check_access_to_updated AFTER UPDATE ON mesh.settings
  REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT WHEN (NOT mesh_internal.writes_all()) EXECUTE FUNCTION mesh_internal.check_access();

DROP TRIGGER IF EXISTS check_access_to_deleted ON mesh.settings;
CREATE TRIGGER check_access_to_deleted AFTER DELETE ON mesh.settings
  REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT WHEN (NOT mesh_internal.writes_all()) EXECUTE FUNCTION mesh_internal.check_access();
