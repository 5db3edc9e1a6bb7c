-- Who may see and change what. The role that owns the schema, and its members, may do everything.
-- Every other role has what it was granted, namespace by namespace (see 80_tenancy.sql). The
-- namespace '' holds what has no namespace, and the grant '*' is for all namespaces, including ''.
--
-- Row-level security does not filter views and functions that run as the owner, so each of them
-- filters by itself:
--
--   WHERE (SELECT mesh_internal.sees_all()) OR namespace = ANY ((SELECT mesh_internal.readable_namespaces())::text[])
--
-- Written like this, with SELECT, each function is called at most once per query.

-- acting_role returns the role on whose behalf a statement runs: the one that connected, or the one
-- that it took on with SET ROLE. Unlike current_user it stays the same inside functions that run as
-- the owner.
CREATE OR REPLACE FUNCTION mesh_internal.acting_role() RETURNS name
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN coalesce(nullif(current_setting('role'), 'none'), session_user);
END $$;

-- every_grant has all grants, by role, and whether each is held: whether its role has the plain
-- privileges that came with it. Postgres drops no role that has privileges, so a role of the same name
-- that was created later lacks them, and does not get what the one before was granted. A dump takes
-- privileges along by name.
CREATE OR REPLACE VIEW mesh_internal.every_grant AS
  SELECT g.role, to_regrole(quote_ident(g.role))::oid AS role_id, g.namespace, g.privilege, g.secrets, g.granted_by, g.granted_at,
    coalesce(aclcontains(n.nspacl, makeaclitem(to_regrole(quote_ident(g.role))::oid, n.nspowner, 'USAGE', false)), false) AS held
  FROM (SELECT role, namespace, privilege, false AS secrets, granted_by, granted_at FROM mesh_internal.namespace_grants
    UNION ALL SELECT role, namespace, privilege, true, granted_by, granted_at FROM mesh_internal.secret_grants) g, pg_namespace n
  WHERE n.nspname = 'mesh_internal';

COMMENT ON VIEW mesh_internal.every_grant IS 'Internal. Read mesh.grants.';

-- holds reports whether the acting role was granted one of the privileges on everything, or is an
-- owner. Every statement asks, so owners are answered first.
CREATE OR REPLACE FUNCTION mesh_internal.holds(privileges text[]) RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  acting name := coalesce(nullif(current_setting('role'), 'none'), session_user);
BEGIN
  IF pg_has_role(acting, current_user, 'USAGE') THEN
    RETURN true;
  END IF;
  RETURN EXISTS (
    SELECT FROM mesh_internal.every_grant g
    WHERE NOT g.secrets AND g.namespace = '*' AND g.privilege = ANY (privileges) AND pg_has_role(acting, g.role_id, 'USAGE') AND g.held);
END $$;

-- granted lists the namespaces on which the acting role has one of the privileges.
CREATE OR REPLACE FUNCTION mesh_internal.granted(privileges text[]) RETURNS text[]
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  acting name := mesh_internal.acting_role();
BEGIN
  RETURN ARRAY(
    SELECT DISTINCT g.namespace FROM mesh_internal.every_grant g
    WHERE NOT g.secrets AND g.namespace <> '*' AND g.privilege = ANY (privileges) AND pg_has_role(acting, g.role_id, 'USAGE') AND g.held);
END $$;

-- sees_all reports whether the acting role may read everything.
CREATE OR REPLACE FUNCTION mesh_internal.sees_all() RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN mesh_internal.holds('{read,write,server}');
END $$;

-- readable_namespaces lists the namespaces that a role may read if it does not see all.
CREATE OR REPLACE FUNCTION mesh_internal.readable_namespaces() RETURNS text[]
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN mesh_internal.granted('{read,write}');
END $$;

-- shows_all and shown_namespaces say which namespaces the acting role may be told of. They are
-- fewer than it may read if a server acts for a caller that may read only some: the server lists
-- those in mesh.reading, separated by commas.
CREATE OR REPLACE FUNCTION mesh_internal.shows_all() RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN coalesce(current_setting('mesh.reading', true), '') = '' AND mesh_internal.sees_all();
END $$;

CREATE OR REPLACE FUNCTION mesh_internal.shown_namespaces() RETURNS text[]
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  reading text := coalesce(current_setting('mesh.reading', true), '');
BEGIN
  IF reading = '' THEN
    RETURN mesh_internal.readable_namespaces();
  ELSIF mesh_internal.sees_all() THEN
    RETURN string_to_array(reading, ',');
  END IF;
  RETURN ARRAY(SELECT unnest(string_to_array(reading, ',')) INTERSECT SELECT unnest(mesh_internal.readable_namespaces()));
END $$;

CREATE OR REPLACE FUNCTION mesh_internal.writes_all() RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN mesh_internal.holds('{write,server}');
END $$;

CREATE OR REPLACE FUNCTION mesh_internal.writable_namespaces() RETURNS text[]
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN mesh_internal.granted('{write}');
END $$;

-- speaks_for_others reports whether the acting role may name anybody as the author of a change, as
-- a server does.
CREATE OR REPLACE FUNCTION mesh_internal.speaks_for_others() RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN mesh_internal.holds('{server}');
END $$;

-- require_write raises an error for the first of the namespaces that the acting role may not write
-- to.
CREATE OR REPLACE FUNCTION mesh_internal.require_write(VARIADIC namespaces text[]) RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  writable text[];
  missing  text;
BEGIN
  IF mesh_internal.writes_all() THEN
    RETURN true;
  END IF;
  writable := mesh_internal.writable_namespaces();
  SELECT n INTO missing FROM unnest(namespaces) n WHERE n <> ALL (writable) ORDER BY n LIMIT 1;
  IF FOUND THEN
    RAISE insufficient_privilege USING
      MESSAGE = format('the role %s lacks the privilege to write to %s', quote_ident(mesh_internal.acting_role()),
        CASE missing WHEN '' THEN 'what belongs to no namespace' ELSE format('the namespace "%s"', missing) END),
      HINT    = format('have the owner of the mesh run: SELECT mesh.grant_namespace(%L, %L, ''write'')', mesh_internal.acting_role(), missing);
  END IF;
  RETURN true;
END $$;

-- require_limits keeps a role from changing the limits that apply to it.
CREATE OR REPLACE FUNCTION mesh_internal.require_limits(setting text) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NOT mesh_internal.writes_all() THEN
    RAISE insufficient_privilege USING
      MESSAGE = format('the role %s may not set "%s", which limits it', quote_ident(mesh_internal.acting_role()), setting),
      HINT    = 'ask the owner of the mesh';
  END IF;
END $$;

-- require_owner guards what changes the whole mesh.
CREATE OR REPLACE FUNCTION mesh_internal.require_owner(doing text) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NOT pg_has_role(mesh_internal.acting_role(), current_user, 'USAGE') THEN
    RAISE insufficient_privilege USING
      MESSAGE = format('the role %s may not %s', quote_ident(mesh_internal.acting_role()), doing),
      HINT    = format('have %s do it, or make the role a member of it: GRANT %1$s TO %s', quote_ident(current_user), quote_ident(mesh_internal.acting_role()));
  END IF;
END $$;
