-- Tables that are not for users move to a schema of their own, mesh_internal. The functions and views that an older
-- program installed stay where they are, and go on working, until this program installs its own (store/sql).

-- +goose Up
-- +goose StatementBegin
DO $$
DECLARE
  owner name := (SELECT nspowner::regrole FROM pg_namespace WHERE nspname = 'mesh');
  other name := (SELECT nspowner::regrole FROM pg_namespace WHERE nspname = 'mesh_internal');
BEGIN
  IF other <> owner THEN
    RAISE EXCEPTION USING ERRCODE = 'MS003', MESSAGE = format('the schema mesh_internal belongs to %s, and the mesh to %s', quote_ident(other), quote_ident(owner)),
      HINT = format('ALTER SCHEMA mesh_internal OWNER TO %I, or have it dropped, and migrate again', owner);
  ELSIF other IS NULL AND NOT has_database_privilege(current_database(), 'CREATE') THEN
    RAISE EXCEPTION USING ERRCODE = 'MS003', MESSAGE = format('this migration creates the schema mesh_internal, which the role %s may not', quote_ident(current_user)),
      HINT = format('have the owner of the database run CREATE SCHEMA mesh_internal AUTHORIZATION %I, and migrate again', owner);
  ELSIF other IS NULL THEN
    EXECUTE format('CREATE SCHEMA mesh_internal AUTHORIZATION %I', owner);
  END IF;
END $$;
-- +goose StatementEnd

-- Locks all tables and views of the mesh, so that a transaction can change them while others use them. It takes
-- views first, as everybody's statements do, and tables after. It waits for less than a second, for others wait behind
-- it, and Postgres looks for deadlocks after one second and might end another's transaction. Then it gives everything
-- back, lets others go on, and tries again: it first takes what those hold who waited for it, so that next time they
-- wait holding nothing. A view is locked by a change of owner that changes nothing, as LOCK would also lock the tables
-- below it.
-- +goose StatementBegin
DO $$
DECLARE
  wanted   oid[] := ARRAY(SELECT c.oid FROM pg_catalog.pg_class c WHERE c.relnamespace = 'mesh'::regnamespace AND c.relkind IN ('r', 'v')
    ORDER BY c.relkind = 'r', c.oid);
  was      text := current_setting('lock_timeout');
  patience double precision := 50; -- milliseconds
  told     timestamptz := clock_timestamp();
  begun    timestamptz;
  next     record;
  waiting  oid[];
  holders  text;
BEGIN
  LOOP
    BEGIN
      begun := clock_timestamp();
      FOR next IN SELECT format(CASE c.relkind WHEN 'v' THEN 'ALTER VIEW %s OWNER TO %I' ELSE 'LOCK TABLE %s IN ACCESS EXCLUSIVE MODE' END, c.oid::regclass, pg_get_userbyid(c.relowner)) AS statement
        FROM unnest(wanted) WITH ORDINALITY w (oid, n) JOIN pg_catalog.pg_class c USING (oid) ORDER BY n
      LOOP
        PERFORM set_config('lock_timeout', ceil(greatest(1, patience - 1000 * extract(epoch FROM clock_timestamp() - begun)))::text, true);
        BEGIN
          EXECUTE next.statement;
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
          PERFORM pg_stat_clear_snapshot();
          -- Here we still have the locks taken so far. Who waits for one of them and holds others is in our way.
          waiting := ARRAY(SELECT DISTINCT h.relation FROM pg_catalog.pg_locks h JOIN pg_catalog.pg_locks w USING (pid)
            WHERE h.granted AND NOT w.granted AND h.relation = ANY (wanted) AND h.pid <> pg_backend_pid());
          holders := (SELECT coalesce(string_agg(format('%s (pid %s, for %s s)', coalesce(nullif(application_name, ''), 'a session'), pid,
              round(extract(epoch FROM clock_timestamp() - xact_start))), ', ' ORDER BY xact_start), 'nobody now')
            FROM (SELECT DISTINCT a.* FROM pg_catalog.pg_stat_activity a JOIN pg_catalog.pg_locks l USING (pid)
              JOIN pg_catalog.pg_class c ON c.oid = l.relation AND c.relnamespace = 'mesh'::regnamespace AND c.relkind IN ('r', 'v')
              WHERE l.granted AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
                AND pid <> pg_backend_pid() ORDER BY a.xact_start LIMIT 5) a);
          RAISE lock_not_available;
        END;
      END LOOP;
      PERFORM set_config('lock_timeout', was, true);
      RETURN;
    EXCEPTION WHEN lock_not_available THEN
      NULL; -- all locks are given back
    END;
    IF waiting = '{}' THEN
      patience := least(2 * patience, 700);
    ELSE
      waiting := coalesce((SELECT array_agg(c.oid) FROM pg_catalog.pg_class c WHERE c.oid = ANY (waiting) AND c.relkind = 'v'), waiting);
      wanted := ARRAY(SELECT w.oid FROM unnest(wanted) WITH ORDINALITY w (oid, n) ORDER BY w.oid <> ALL (waiting), w.n);
    END IF;
    IF clock_timestamp() > told + interval '1 second' THEN
      told := clock_timestamp();
      RAISE WARNING USING ERRCODE = 'lock_not_available', MESSAGE = 'waiting for others who use the tables: ' || holders;
    END IF;
    -- The random part keeps two that wait for each other from trying in step.
    PERFORM pg_sleep((1 + random()) * greatest(0.05, extract(epoch FROM clock_timestamp() - begun)));
  END LOOP;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
DO $$
DECLARE
  moved text;
BEGIN
  FOREACH moved IN ARRAY '{authority_keys,changes,control_plane_names,deadlines,editable_columns,editable_views,findings,host_owners,installation,
    join_redemptions,join_token_hashes,links,namespace_grants,numbering,part_edits,schema_parts,schema_types,secret_changes,secret_grants,sink_attempts,
    sink_holders,transactions,trust_names,trust_readings,unreverted,unsupported,workload_clock,workload_group_locks,workload_instances,workload_sessions,
    written}'::text[] LOOP
    EXECUTE format('ALTER TABLE mesh.%I SET SCHEMA mesh_internal', moved);
  END LOOP;
  ALTER TYPE mesh.problem SET SCHEMA mesh_internal;
  ALTER TYPE mesh.link_problem SET SCHEMA mesh_internal;
END $$;
-- +goose StatementEnd

-- Functions name tables in their text, which has to say where these are now. A setting is called mesh.numbering like a
-- table, and a trigger like a function.
-- +goose StatementBegin
DO $$
DECLARE
  moved text := (SELECT '\mmesh\.(' || string_agg(relname, '|') || ')\M' FROM pg_class
    WHERE relnamespace = 'mesh_internal'::regnamespace AND relkind IN ('r', 'S', 'c') AND relname <> 'numbering');
  f     regprocedure;
  was   text;
  text  text;
BEGIN
  PERFORM set_config('check_function_bodies', 'off', true);
  FOR f IN SELECT oid FROM pg_proc WHERE pronamespace = 'mesh'::regnamespace AND prokind = 'f' LOOP
    was := pg_get_functiondef(f);
    text := regexp_replace(was, moved, 'mesh_internal.\1', 'g');
    text := regexp_replace(text, '(LOCK TABLE|SET CONSTRAINTS) mesh\.(numbering|number_transaction)\M', '\1 mesh_internal.\2', 'g');
    text := replace(text, '<> ''mesh''::regnamespace', '<> ALL (''{mesh,mesh_internal}''::regnamespace[])');
    IF text <> was THEN
      EXECUTE text;
    END IF;
  END LOOP;
END $$;
-- +goose StatementEnd

-- Servers of the release before read these tables by their old names, as long as they run beside this one. Who may use
-- the mesh may use both schemas, until grants are made anew (mesh_internal.refresh_privileges).
-- +goose StatementBegin
DO $$
DECLARE
  read  text[] := '{authority_keys,changes,findings,installation,namespace_grants,secret_changes,transactions,trust_names,trust_readings}';
  moved text;
  role  record;
BEGIN
  FOREACH moved IN ARRAY read LOOP
    EXECUTE format('CREATE VIEW mesh.%I AS SELECT * FROM mesh_internal.%1$I', moved);
  END LOOP;
  FOR role IN SELECT a.grantee::regrole AS name FROM pg_namespace n, aclexplode(n.nspacl) a WHERE n.nspname = 'mesh' AND a.privilege_type = 'USAGE' AND a.grantee NOT IN (0, n.nspowner) LOOP
    EXECUTE format('GRANT USAGE ON SCHEMA mesh_internal TO %s', role.name);
  END LOOP;
  FOR role IN SELECT a.grantee::regrole AS name, c.relname FROM pg_class c, aclexplode(c.relacl) a
    WHERE c.relnamespace = 'mesh_internal'::regnamespace AND c.relname = ANY (read) AND a.privilege_type = 'SELECT' AND a.grantee NOT IN (0, c.relowner)
  LOOP
    EXECUTE format('GRANT SELECT ON mesh.%I TO %s', role.relname, role.name);
  END LOOP;
END $$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DO $$
DECLARE
  moved text;
BEGIN
  FOR moved IN SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'mesh_internal'::regnamespace AND c.relkind = 'r' LOOP
    EXECUTE format('ALTER TABLE mesh_internal.%I SET SCHEMA mesh', moved);
  END LOOP;
  ALTER TYPE mesh_internal.problem SET SCHEMA mesh;
  ALTER TYPE mesh_internal.link_problem SET SCHEMA mesh;
END $$;
-- +goose StatementEnd
DROP SCHEMA mesh_internal;
