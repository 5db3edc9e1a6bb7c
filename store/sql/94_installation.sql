-- Who changes the objects of the mesh breaks it in ways that show elsewhere, and later: a trigger that
-- is disabled, an index that is dropped, a function that is replaced. So each migration notes what it
-- has made, and what is otherwise now can be told. Privileges, comments, statistics and settings of
-- storage are the owner's to change, and not looked at.

-- present_objects lists the objects of the mesh as they are. What belongs to an extension is not
-- there, nor what Postgres makes for a constraint.
CREATE OR REPLACE FUNCTION mesh_internal.present_objects() RETURNS TABLE (kind text, name text, definition text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH relations AS MATERIALIZED (
    SELECT c.oid, c.relkind, c.relrowsecurity, c.oid::regclass::text AS name FROM pg_class c WHERE c.relnamespace = ANY ('{mesh,mesh_internal}'::regnamespace[]) AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
  )
  SELECT CASE relkind WHEN 'v' THEN 'view' ELSE 'table' END, name, CASE relkind WHEN 'v' THEN md5(pg_get_viewdef(oid)) ELSE 'row-level security ' || CASE WHEN relrowsecurity THEN 'on' ELSE 'off' END END FROM relations
  UNION ALL
  SELECT 'column', format('%s.%I', r.name, a.attname), concat_ws(' ', format_type(a.atttypid, a.atttypmod), CASE WHEN a.attnotnull THEN 'NOT NULL' END, 'DEFAULT ' || pg_get_expr(d.adbin, d.adrelid))
    FROM relations r JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE r.relkind <> 'v'
  UNION ALL
  SELECT 'constraint', format('%s.%I', r.name, o.conname), pg_get_constraintdef(o.oid) FROM relations r JOIN pg_constraint o ON o.conrelid = r.oid WHERE o.contype IN ('c', 'f', 'p', 'u', 'x')
  UNION ALL
  SELECT 'index', i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid) || CASE WHEN i.indisvalid THEN '' ELSE ' (invalid)' END
    FROM relations r JOIN pg_index i ON i.indrelid = r.oid WHERE NOT EXISTS (SELECT FROM pg_constraint o WHERE o.conindid = i.indexrelid AND o.contype IN ('p', 'u', 'x'))
  UNION ALL
  SELECT 'trigger', format('%s.%I', r.name, t.tgname), pg_get_triggerdef(t.oid) || CASE t.tgenabled WHEN 'D' THEN ' (disabled)' WHEN 'A' THEN ' (always)' WHEN 'R' THEN ' (replica)' ELSE '' END
    FROM relations r JOIN pg_trigger t ON t.tgrelid = r.oid WHERE NOT t.tgisinternal
  UNION ALL
  SELECT 'policy', format('%s.%I', r.name, p.polname), md5(concat_ws(' ', p.polcmd, p.polpermissive, p.polroles, pg_get_expr(p.polqual, p.polrelid), pg_get_expr(p.polwithcheck, p.polrelid)))
    FROM relations r JOIN pg_policy p ON p.polrelid = r.oid
  UNION ALL
  SELECT 'rule', format('%s.%I', r.name, w.rulename), pg_get_ruledef(w.oid) FROM relations r JOIN pg_rewrite w ON w.ev_class = r.oid WHERE w.rulename <> '_RETURN'
  UNION ALL
  SELECT 'function', p.oid::regprocedure::text, md5(concat_ws(' ', p.prosrc, l.lanname, pg_get_function_result(p.oid), p.prosecdef, p.provolatile, p.proisstrict, p.proconfig))
    FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
    WHERE p.pronamespace = ANY ('{mesh,mesh_internal}'::regnamespace[]) AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e')
$$;

-- this_server tells the version of Postgres, and the copy of the mesh, from others: a later version may
-- write definitions otherwise, and so does the same one of what was restored from a dump.
CREATE OR REPLACE FUNCTION mesh_internal.this_server() RETURNS text
LANGUAGE sql STABLE AS $$
  SELECT concat_ws(' ', current_setting('server_version_num')::int / 10000, 'mesh'::regnamespace::oid, 'mesh_internal'::regnamespace::oid, 'mesh_internal.installed_objects'::regclass::oid)
$$;

-- schema_digest tells the schema from those of other programs, and from one that is half migrated.
CREATE OR REPLACE FUNCTION mesh_internal.schema_digest() RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT concat_ws(' ', (SELECT max(v.version_id) FROM mesh.schema_version v WHERE v.is_applied), i.code_digest, i.views_digest) FROM mesh_internal.installation i
$$;

-- differing_objects lists what differs from what was noted of this schema. On another server that is
-- what is missing or new, the text of functions, and whether triggers are disabled; until the next
-- migration.
CREATE OR REPLACE FUNCTION mesh_internal.differing_objects() RETURNS TABLE (kind text, name text, noted text, present text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(i.kind, p.kind), coalesce(i.name, p.name), i.definition, p.definition
  FROM (SELECT * FROM mesh_internal.installed_objects WHERE state <> 'foreign') i FULL JOIN mesh_internal.present_objects() p ON p.kind = i.kind AND p.name = i.name
  WHERE (SELECT n.noted_digest = mesh_internal.schema_digest() FROM mesh_internal.installation n)
    AND (i.kind IS NULL OR p.kind IS NULL OR i.definition <> p.definition
      AND (i.server = mesh_internal.this_server() OR i.kind IN ('function', 'table') OR i.kind = 'trigger' AND (i.definition LIKE '% (disabled)') <> (p.definition LIKE '% (disabled)')))
$$;

-- mark_changes is called before a migration, so that what others have changed is told after it too:
-- what they have added, and what of tables, which a migration does not make anew. Of the rest the
-- migration makes everything anew if it finds some of it changed.
CREATE OR REPLACE FUNCTION mesh_internal.mark_changes() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  d record;
BEGIN
  IF NOT EXISTS (SELECT FROM mesh_internal.installed_objects) THEN -- somebody has dropped the table, and made it again
    UPDATE mesh_internal.installation SET code_digest = '', noted_digest = '' WHERE noted_digest <> '';
    RETURN;
  END IF;
  FOR d IN SELECT * FROM mesh_internal.differing_objects() LOOP
    IF d.noted IS NULL THEN
      INSERT INTO mesh_internal.installed_objects VALUES (d.kind, d.name, '', '', 'foreign') ON CONFLICT DO NOTHING;
    ELSIF d.kind IN ('table', 'column', 'constraint', 'index') THEN
      UPDATE mesh_internal.installed_objects i SET state = 'changed' WHERE i.kind = d.kind AND i.name = d.name;
    ELSE
      UPDATE mesh_internal.installation SET code_digest = '' WHERE code_digest <> '';
      UPDATE mesh_internal.installation SET noted_digest = mesh_internal.schema_digest(); -- so that it is told, too, if the migration fails
    END IF;
  END LOOP;
END $$;

-- note_objects is called at the end of a migration.
CREATE OR REPLACE FUNCTION mesh_internal.note_objects() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF (SELECT n.noted_digest = mesh_internal.schema_digest() FROM mesh_internal.installation n) THEN
    RETURN; -- nothing was made
  END IF;
  DELETE FROM mesh_internal.installed_objects WHERE state = 'made';
  INSERT INTO mesh_internal.installed_objects
    SELECT p.kind, p.name, p.definition, mesh_internal.this_server() FROM mesh_internal.present_objects() p ON CONFLICT DO NOTHING;
  UPDATE mesh_internal.installation SET noted_digest = mesh_internal.schema_digest();
END $$;

-- way_back_of_column returns how ALTER TABLE makes a column again what it was: its type, NOT NULL and default.
CREATE OR REPLACE FUNCTION mesh_internal.way_back_of_column(name text, noted text, present text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT string_agg(format('ALTER COLUMN %s %s', way_back_of_column.name, s.step), ', ' ORDER BY s.place)
  FROM regexp_match(noted, '^(.*?)( NOT NULL)?(?: DEFAULT (.*))?$') was, regexp_match(present, '^(.*?)( NOT NULL)?(?: DEFAULT (.*))?$') is_now, LATERAL (VALUES
    (1, CASE WHEN was[1] <> is_now[1] THEN format('TYPE %s USING %s::%1$s', was[1], way_back_of_column.name) END),
    (2, CASE WHEN was[2] IS NULL AND is_now[2] IS NOT NULL THEN 'DROP NOT NULL' WHEN was[2] IS NOT NULL AND is_now[2] IS NULL THEN 'SET NOT NULL' END),
    (3, CASE WHEN was[3] IS NULL AND is_now[3] IS NOT NULL THEN 'DROP DEFAULT' WHEN was[3] IS DISTINCT FROM is_now[3] THEN 'SET DEFAULT ' || was[3] END)) s (place, step)
  WHERE s.step IS NOT NULL
$$;

-- advice_about says what to do about an object that somebody has added, changed or dropped.
CREATE OR REPLACE FUNCTION mesh_internal.advice_about(kind text, name text, noted text, present text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE
    WHEN kind IN ('function', 'view', 'trigger', 'policy') AND noted IS NOT NULL THEN 'run mcp-server migrate up, which makes it anew'
    WHEN noted IS NULL THEN CASE kind
      WHEN 'column' THEN format('keep data of your own in a table of your own, and run: ALTER TABLE %s DROP COLUMN %s', mesh_internal.table_in(name), mesh_internal.last_in(name))
      WHEN 'constraint' THEN format('run: ALTER TABLE %s DROP CONSTRAINT %s', mesh_internal.table_in(name), mesh_internal.last_in(name))
      WHEN 'trigger' THEN format('run: DROP TRIGGER %s ON %s', mesh_internal.last_in(name), mesh_internal.table_in(name))
      WHEN 'policy' THEN format('run: DROP POLICY %s ON %s', mesh_internal.last_in(name), mesh_internal.table_in(name))
      WHEN 'rule' THEN format('run: DROP RULE %s ON %s', mesh_internal.last_in(name), mesh_internal.table_in(name))
      WHEN 'index' THEN format('run: DROP INDEX %s; it may stay if it is of use to you, and makes each change a little slower', name)
      ELSE format('move it to a schema of your own: ALTER %s %s SET SCHEMA …', upper(kind), name) END
    WHEN kind = 'index' THEN concat_ws('; ', 'run: DROP INDEX ' || CASE WHEN present IS NOT NULL THEN name END, CASE WHEN present IS NULL THEN 'run: ' ELSE '' END || noted)
    WHEN kind = 'constraint' THEN format('run: ALTER TABLE %s%s ADD CONSTRAINT %s %s', mesh_internal.table_in(name),
      CASE WHEN present IS NOT NULL THEN format(' DROP CONSTRAINT %s,', mesh_internal.last_in(name)) ELSE '' END, mesh_internal.last_in(name), noted)
    WHEN kind = 'table' AND present IS NOT NULL THEN format('run: ALTER TABLE %s %s ROW LEVEL SECURITY', name, CASE WHEN noted LIKE '% on' THEN 'ENABLE' ELSE 'DISABLE' END)
    WHEN kind = 'column' AND present IS NOT NULL THEN format('run: ALTER TABLE %s %s', mesh_internal.table_in(name), mesh_internal.way_back_of_column(mesh_internal.last_in(name), noted, present))
    ELSE 'restore it from a backup, or make it again as the migration did (mcp-server migrate sql)' END
$$;

-- fires_otherwise reports whether nothing but when it fires differs of a trigger.
CREATE OR REPLACE FUNCTION mesh_internal.fires_otherwise(kind text, noted text, present text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
  SELECT kind = 'trigger' AND noted <> present AND regexp_replace(noted, ' \((disabled|always|replica)\)$', '') = regexp_replace(present, ' \((disabled|always|replica)\)$', '')
$$;

-- The name of a part of a table is that of the table, a dot, and its own, quoted where need be.
CREATE OR REPLACE FUNCTION mesh_internal.table_in(name text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT substring(name FROM '^((?:"[^"]*"|[^".])+\.(?:"[^"]*"|[^".])+)\.') $$;

CREATE OR REPLACE FUNCTION mesh_internal.last_in(name text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT substr(name, length(mesh_internal.table_in(name)) + 2) $$;

-- is_in_place reports whether a column that is not of the mesh is where one of the mesh was, and so is
-- that one with another name: a new column comes after all others, and one that was dropped leaves a gap.
CREATE OR REPLACE FUNCTION mesh_internal.is_in_place(name text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT c.attnum < known.last OR NOT EXISTS (SELECT FROM pg_attribute g WHERE g.attrelid = c.attrelid AND g.attisdropped AND g.attnum BETWEEN known.last AND c.attnum)
  FROM pg_attribute c, (SELECT coalesce(max(a.attnum), 0) AS last FROM pg_attribute a JOIN mesh_internal.installed_objects i
      ON i.kind = 'column' AND i.state <> 'foreign' AND i.name = format('%s.%I', mesh_internal.table_in(is_in_place.name), a.attname)
    WHERE a.attrelid = mesh_internal.table_in(is_in_place.name)::regclass AND a.attnum > 0) known
  WHERE c.attrelid = mesh_internal.table_in(is_in_place.name)::regclass AND c.attname = (parse_ident(is_in_place.name))[3]
$$;

-- local_name returns the name of a view in its schema.
CREATE OR REPLACE FUNCTION mesh_internal.local_name(name text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$ SELECT quote_ident((parse_ident(name))[2]) $$;

-- without_its_name returns a definition that is the same whatever the object is called.
CREATE OR REPLACE FUNCTION mesh_internal.without_its_name(kind text, name text, definition text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE kind WHEN 'index' THEN replace(definition, format(' INDEX %s ON ', mesh_internal.local_name(name)), ' INDEX ON ') ELSE definition END
$$;

-- reads reports whether a view reads another.
CREATE OR REPLACE FUNCTION mesh_internal.reads(view text, other text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT EXISTS (SELECT FROM pg_rewrite w JOIN pg_depend p ON p.classid = 'pg_rewrite'::regclass AND p.objid = w.oid
    WHERE w.ev_class = to_regclass(view) AND p.refclassid = 'pg_class'::regclass AND p.refobjid = to_regclass(other))
$$;

-- elsewhere returns a table of another schema that has the name of one.
CREATE OR REPLACE FUNCTION mesh_internal.elsewhere(name text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT c.oid::regclass::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE c.relname = (parse_ident(elsewhere.name))[2] AND c.relkind = 'r' AND n.nspname NOT IN ('mesh', 'mesh_internal') AND n.nspname !~ '^pg_' ORDER BY n.nspname LIMIT 1
$$;

-- has_rows_of reports whether a function takes or returns rows of a table.
CREATE OR REPLACE FUNCTION mesh_internal.has_rows_of(function text, relation text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT EXISTS (SELECT FROM pg_depend p JOIN pg_type t ON t.oid = p.refobjid LEFT JOIN pg_type e ON e.oid = t.typelem
    WHERE p.classid = 'pg_proc'::regclass AND p.objid = to_regprocedure(function) AND p.refclassid = 'pg_type'::regclass AND to_regclass(relation) IN (t.typrelid, e.typrelid))
$$;

-- explained_objects is differing_objects in words. A column, constraint, index, view or table that is missing
-- and one that is not of the mesh are one with another name if they are alike; what names it differs with it.
-- Tables are alike if their columns are.
CREATE OR REPLACE FUNCTION mesh_internal.explained_objects() RETURNS TABLE (kind text, name text, difference text, advice text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH d AS MATERIALIZED (SELECT * FROM mesh_internal.differing_objects()),
  columns AS MATERIALIZED (
    SELECT mesh_internal.table_in(c.name) AS of, c.noted IS NULL AS new, array_agg(concat_ws(' ', mesh_internal.last_in(c.name), coalesce(c.noted, c.present)) ORDER BY c.name COLLATE "C") AS list
    FROM d c WHERE c.kind = 'column' GROUP BY 1, 2
  ),
  alike AS MATERIALIZED (
    SELECT m.kind, m.name AS was, e.name AS is, count(*) OVER (PARTITION BY m.kind, m.name) = 1 AND count(*) OVER (PARTITION BY e.kind, e.name) = 1 AS sole
    FROM d m JOIN d e ON m.kind = e.kind AND m.present IS NULL AND e.noted IS NULL
      AND mesh_internal.without_its_name(e.kind, e.name, e.present) = mesh_internal.without_its_name(m.kind, m.name, m.noted)
    WHERE m.kind IN ('column', 'constraint') AND mesh_internal.table_in(m.name) = mesh_internal.table_in(e.name) OR m.kind = 'index' OR (parse_ident(m.name))[1] = (parse_ident(e.name))[1]
      AND (m.kind = 'view' OR m.kind = 'table' AND (SELECT c.list FROM columns c WHERE c.of = m.name AND NOT c.new) = (SELECT c.list FROM columns c WHERE c.of = e.name AND c.new))
  ), renamed AS MATERIALIZED (
    SELECT a.kind, a.was, a.is, a.sole, mesh_internal.table_in(a.was) AS table_name,
      CASE WHEN a.kind IN ('column', 'constraint') THEN mesh_internal.last_in(a.was) ELSE mesh_internal.local_name(a.was) END AS old,
      CASE WHEN a.kind IN ('column', 'constraint') THEN mesh_internal.last_in(a.is) ELSE mesh_internal.local_name(a.is) END AS new,
      CASE a.kind WHEN 'column' THEN mesh_internal.is_in_place(a.is) ELSE a.sole END AS certain
    FROM alike a
  ), told AS (
    SELECT d.*, (SELECT string_agg(r.new, ' or ' ORDER BY r.is) FROM renamed r WHERE r.was = d.name AND d.kind = r.kind) AS new,
      (SELECT string_agg(r.old, ' or ' ORDER BY r.was) FROM renamed r WHERE r.is = d.name AND d.kind = r.kind) AS old,
      (SELECT bool_and(r.certain) FROM renamed r WHERE d.kind = r.kind AND d.name IN (r.was, r.is)) AS certain,
      (SELECT bool_and(r.sole) FROM renamed r WHERE d.kind = r.kind AND d.name IN (r.was, r.is)) AS sole,
      (SELECT 'column back first: ' || r.was FROM renamed r WHERE r.kind = 'column' AND d.kind IN ('constraint', 'index', 'trigger') AND d.noted = CASE WHEN r.new ~ '^\w+$' THEN regexp_replace(d.present, '\m' || r.new || '\M', r.old, 'g') ELSE replace(d.present, r.new, r.old) END AND position(r.table_name IN concat(d.name, d.noted)) > 0
        UNION ALL SELECT format('%s back first: %s', r.kind, r.was) FROM renamed r WHERE r.kind IN ('view', 'table') AND CASE
          WHEN d.kind = 'view' THEN d.noted <> d.present AND mesh_internal.reads(d.name, r.is)
          WHEN r.kind = 'table' AND d.kind IN ('constraint', 'index') THEN d.noted = replace(d.present, r.is, r.was)
          WHEN r.kind = 'table' AND d.kind = 'function' THEN d.present IS NULL AND position(r.was IN d.name) > 0 OR mesh_internal.has_rows_of(d.name, r.is) END
        LIMIT 1) AS follows,
      CASE WHEN d.kind = 'table' AND d.present IS NULL THEN mesh_internal.elsewhere(d.name) END AS elsewhere
    FROM d
  )
  SELECT d.kind, d.name, CASE
      WHEN d.old IS NOT NULL AND d.certain THEN format('is not of the mesh: somebody has renamed %s to it', d.old)
      WHEN d.new IS NOT NULL AND d.certain THEN format('is missing: somebody has renamed it to %s', d.new)
      WHEN d.elsewhere IS NOT NULL THEN format('is missing: somebody has moved it to another schema, as %s, or dropped it', d.elsewhere)
      WHEN d.noted IS NULL THEN 'is not of the mesh: somebody has added it'
      WHEN d.present IS NULL THEN 'is missing: somebody has dropped it'
      WHEN d.kind IN ('function', 'view', 'policy') THEN 'is not what the migration made: somebody has replaced it'
      WHEN mesh_internal.fires_otherwise(d.kind, d.noted, d.present) THEN CASE substring(d.present FROM ' \((disabled|always|replica)\)$')
        WHEN 'disabled' THEN 'is disabled: somebody has disabled it' WHEN 'always' THEN 'fires with session_replication_role = replica, too: somebody has enabled it always'
        WHEN 'replica' THEN 'fires with session_replication_role = replica alone: somebody has enabled it so' ELSE 'is enabled: somebody has enabled it' END
      ELSE format('is not what the migration made: it is %s, and was %s', d.present, d.noted) END,
    CASE
      WHEN d.follows IS NOT NULL THEN format('rename the %s is missing', d.follows)
      WHEN mesh_internal.fires_otherwise(d.kind, d.noted, d.present) THEN format('run mcp-server migrate up, which makes it anew, or: ALTER TABLE %s %s TRIGGER %s', mesh_internal.table_in(d.name),
        CASE substring(d.noted FROM ' \((disabled|always|replica)\)$') WHEN 'disabled' THEN 'DISABLE' WHEN 'always' THEN 'ENABLE ALWAYS' WHEN 'replica' THEN 'ENABLE REPLICA' ELSE 'ENABLE' END, mesh_internal.last_in(d.name))
      WHEN d.old IS NOT NULL AND d.certain THEN format('keep it, and do what the advice about %s says', d.old)
      WHEN d.old IS NOT NULL AND d.kind = 'column' THEN format('if it has the data of %s, which is missing, rename it to that. Otherwise %s', d.old, mesh_internal.advice_about(d.kind, d.name, d.noted, d.present))
      WHEN d.kind IN ('view', 'table', 'index') AND d.new IS NOT NULL AND d.certain THEN format('run: ALTER %s %s.%s RENAME TO %s', upper(d.kind), quote_ident((parse_ident(d.name))[1]), d.new, mesh_internal.local_name(d.name))
      WHEN d.elsewhere IS NOT NULL THEN format('if %s has its rows, run: ALTER TABLE %1$s SET SCHEMA %s; otherwise %s', d.elsewhere,
        (parse_ident(d.name))[1], mesh_internal.advice_about(d.kind, d.name, d.noted, d.present))
      WHEN d.kind IN ('column', 'constraint') AND d.new IS NOT NULL AND d.sole AND d.certain THEN format('run: ALTER TABLE %s RENAME %s %s TO %s', mesh_internal.table_in(d.name), upper(d.kind), d.new, mesh_internal.last_in(d.name))
      WHEN d.kind = 'column' AND d.new IS NOT NULL THEN format('find out whether %s has its data, and rename that one back: ALTER TABLE %s RENAME COLUMN … TO %s. Otherwise %s', d.new, mesh_internal.table_in(d.name), mesh_internal.last_in(d.name),
        mesh_internal.advice_about(d.kind, d.name, d.noted, d.present))
      ELSE mesh_internal.advice_about(d.kind, d.name, d.noted, d.present) END
  FROM told d
  WHERE NOT EXISTS (SELECT FROM told t WHERE t.kind IN ('table', 'view') AND (t.noted IS NULL OR t.present IS NULL) AND t.name = coalesce(
    CASE WHEN d.kind IN ('column', 'constraint', 'trigger', 'policy', 'rule') THEN mesh_internal.table_in(d.name) END,
    CASE WHEN d.kind = 'index' AND d.noted IS NULL THEN (SELECT x.indrelid::regclass::text FROM pg_index x WHERE x.indexrelid = to_regclass(d.name)) END)) -- what is in a table of somebody else's is too, and what it had is missing with it
  ORDER BY d.kind, d.name
$$;

-- told_owners names the first objects of the mesh that belong to somebody else than its owner, who may not
-- use them then, as after a restore by a superuser, and says how many more there are.
CREATE OR REPLACE FUNCTION mesh_internal.told_owners() RETURNS TABLE (kind text, name text, difference text, advice text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH owner AS (SELECT n.nspowner AS oid, quote_ident(pg_get_userbyid(n.nspowner)) AS name FROM pg_namespace n WHERE n.nspname = 'mesh'),
  made AS MATERIALIZED (SELECT i.kind, i.name FROM mesh_internal.installed_objects i WHERE i.state <> 'foreign' AND i.kind IN ('table', 'view', 'function')),
  owned AS (
    SELECT m.kind, m.name, c.relowner AS by FROM pg_class c JOIN made m ON m.name = c.oid::regclass::text AND m.kind <> 'function' WHERE c.relnamespace = ANY ('{mesh,mesh_internal}'::regnamespace[])
    UNION ALL SELECT m.kind, m.name, p.proowner FROM pg_proc p JOIN made m ON m.name = p.oid::regprocedure::text AND m.kind = 'function' WHERE p.pronamespace = ANY ('{mesh,mesh_internal}'::regnamespace[])
    UNION ALL SELECT 'schema', n.nspname, n.nspowner FROM pg_namespace n WHERE n.nspname = 'mesh_internal'
  )
  SELECT f.kind, f.name || CASE WHEN f.place = 20 AND f.total > 20 THEN format(', and %s more', f.total - 20) ELSE '' END,
    format('belongs to %s, and not to the owner of the mesh, %s, who may not use it', quote_ident(pg_get_userbyid(f.by)), f.owner),
    format('run: ALTER %s %s OWNER TO %s; or mcp-server migrate up as a superuser, which gives it all back', CASE f.kind WHEN 'function' THEN 'ROUTINE' ELSE upper(f.kind) END, f.name, f.owner)
  FROM (SELECT w.*, o.name AS owner, row_number() OVER (ORDER BY w.kind, w.name) AS place, count(*) OVER () AS total FROM owned w, owner o WHERE w.by <> o.oid) f WHERE f.place <= 20 ORDER BY f.place
$$;

-- told_resources names the first of the resources that were changed or deleted around the triggers, and
-- says how many more there are, and how many that the history does not know any more.
CREATE OR REPLACE FUNCTION mesh_internal.told_resources() RETURNS TABLE (name text, difference text, advice text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH deleted AS MATERIALIZED (TABLE mesh_internal.deleted_around), found AS (
    SELECT c.kind, c.namespace, c.name, format('is not what revision %s made it: somebody has changed it with triggers off', c.revision) AS difference FROM mesh_internal.changed_around c
    UNION ALL
    SELECT d.kind, d.namespace, d.name, format('is missing, and revision %s left it: somebody has deleted it with triggers off', d.revision) FROM deleted d
  )
  (SELECT concat_ws(' ', f.kind, concat_ws('/', nullif(f.namespace, ''), f.name)) || CASE WHEN f.place = 20 AND f.total > 20 THEN format(', and %s more', f.total - 20) ELSE '' END,
    f.difference, 'run: SELECT mesh.adopt(), which makes a revision of the change, that can be reverted'
  FROM (SELECT n.*, row_number() OVER (ORDER BY n.kind, n.namespace, n.name) AS place, count(*) OVER () AS total FROM found n) f WHERE f.place <= 20 ORDER BY f.place)
  UNION ALL
  SELECT CASE u.missing WHEN 1 THEN '1 resource' ELSE u.missing || ' resources' END,
    'missing, and the history does not know which any more: somebody has deleted as many with triggers off, or deleted and made them again',
    'restore them from a backup, if they are to be there; SELECT mesh.adopt() counts anew'
  FROM (SELECT mesh_internal.missing_rows() - (SELECT count(*) FROM deleted) AS missing) u WHERE u.missing > 0
$$;

CREATE OR REPLACE FUNCTION mesh.check_installation() RETURNS TABLE (kind text, name text, difference text, advice text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  told boolean := false;
BEGIN
  IF NOT mesh_internal.speaks_for_others() THEN
    PERFORM mesh_internal.require_owner('look for changes of the installation');
  END IF;
  IF (SELECT n.noted_digest <> mesh_internal.schema_digest() FROM mesh_internal.installation n) THEN
    RETURN QUERY VALUES ('schema', 'mesh', 'is between two versions: a migration has begun and not ended, and what others have changed cannot be told',
      'wait if mcp-server migrate up runs; otherwise run it, and do what its error says');
    told := true;
  END IF;
  RETURN QUERY SELECT * FROM mesh_internal.explained_objects();
  told := told OR FOUND;
  RETURN QUERY SELECT * FROM mesh_internal.told_owners();
  BEGIN
    RETURN QUERY SELECT 'grants', g.* FROM mesh_internal.told_grants() g;
  EXCEPTION WHEN undefined_table OR undefined_column OR undefined_function OR undefined_object THEN
    IF NOT told THEN
      RAISE;
    END IF; -- what it reads was dropped or renamed, and the rows before say so
  END;
  BEGIN
    RETURN QUERY SELECT 'resource', r.* FROM mesh_internal.told_resources() r;
  EXCEPTION WHEN undefined_table OR undefined_column OR undefined_function OR undefined_object THEN
    IF NOT told THEN
      RAISE;
    END IF;
  END;
END $$;

COMMENT ON FUNCTION mesh.check_installation IS 'Returns what somebody else than a migration has changed in the schemas of the mesh: columns, constraints, indexes, triggers, policies, views and functions that were added, changed or dropped, or belong to somebody else than the owner; grants that give nothing, or less than they should, as of roles that were dropped or renamed, or were missing at a restore; resources that were changed or deleted with triggers off; and what to do about each. Empty if all is as it was made. For the owner and servers.';
