-- A change of secrets is part of its transaction's revision like any other. Its record has no
-- values.

-- secret_note returns what is recorded of a secret; NULL if there is none.
CREATE OR REPLACE FUNCTION mesh_internal.secret_note(type text, labels jsonb, digests jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE WHEN digests IS NOT NULL THEN jsonb_build_object('type', type, 'labels', labels, 'digests', digests) END
$$;

-- accounts_note returns what is also recorded of a secret that only some gateways get.
CREATE OR REPLACE FUNCTION mesh_internal.accounts_note(service_accounts text[]) RETURNS jsonb
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE WHEN cardinality(service_accounts) > 0 THEN jsonb_build_object('serviceAccounts', service_accounts) ELSE '{}' END
$$;

-- expect_number_of_secrets is expect_number for a transaction that has changed secrets.
CREATE OR REPLACE FUNCTION mesh_internal.expect_number_of_secrets(of bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  INSERT INTO mesh_internal.transactions AS t (id, secrets) VALUES (of, true)
    ON CONFLICT (id) DO UPDATE SET pending = true, secrets = true WHERE NOT (t.pending AND t.secrets);
END $$;

CREATE OR REPLACE FUNCTION mesh_internal.record_secrets() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  id bigint := (mesh_internal.current_transaction()).id;
BEGIN
  IF TG_OP = 'INSERT' THEN
    INSERT INTO mesh_internal.secret_changes AS c (transaction_id, namespace, name, after)
      SELECT id, n.namespace, n.name, mesh_internal.secret_note(n.type, n.labels, n.digests) || mesh_internal.accounts_note(n.service_accounts) FROM new_rows n
      ON CONFLICT (transaction_id, namespace, name) DO UPDATE SET after = EXCLUDED.after;
  ELSIF TG_OP = 'DELETE' THEN
    INSERT INTO mesh_internal.secret_changes AS c (transaction_id, namespace, name, before)
      SELECT id, o.namespace, o.name, mesh_internal.secret_note(o.type, o.labels, o.digests) || mesh_internal.accounts_note(o.service_accounts) FROM old_rows o
      ON CONFLICT (transaction_id, namespace, name) DO UPDATE SET after = NULL;
  ELSE -- A row that was given another name is one secret less and one more.
    INSERT INTO mesh_internal.secret_changes AS c (transaction_id, namespace, name, before, after)
      SELECT id, coalesce(n.namespace, o.namespace), coalesce(n.name, o.name),
        mesh_internal.secret_note(o.type, o.labels, o.digests) || mesh_internal.accounts_note(o.service_accounts),
        mesh_internal.secret_note(n.type, n.labels, n.digests) || mesh_internal.accounts_note(n.service_accounts)
      FROM old_rows o FULL JOIN new_rows n ON n.namespace = o.namespace AND n.name = o.name
      WHERE mesh_internal.secret_note(o.type, o.labels, o.digests) || mesh_internal.accounts_note(o.service_accounts)
        IS DISTINCT FROM mesh_internal.secret_note(n.type, n.labels, n.digests) || mesh_internal.accounts_note(n.service_accounts)
      ON CONFLICT (transaction_id, namespace, name) DO UPDATE SET after = EXCLUDED.after;
  END IF;
  IF FOUND THEN
    PERFORM mesh_internal.expect_number_of_secrets(id);
  END IF;
  RETURN NULL;
END $$;

DROP TRIGGER IF EXISTS record_insert ON mesh.secrets;
CREATE TRIGGER record_insert AFTER INSERT ON mesh.secrets
  REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION mesh_internal.record_secrets();

DROP TRIGGER IF EXISTS record_update ON mesh.secrets;
CREATE TRIGGER record_update AFTER UPDATE ON mesh.secrets
  REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION mesh_internal.record_secrets();

DROP TRIGGER IF EXISTS record_delete ON mesh.secrets;
CREATE TRIGGER record_delete AFTER DELETE ON mesh.secrets
  REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION mesh_internal.record_secrets();

-- count_secrets runs at commit: it deletes changes that cancelled each other out, unless they have
-- a number already, and counts the others. A revision with secrets cannot revert by itself, because
-- the old values are not kept.
CREATE OR REPLACE FUNCTION mesh_internal.count_secrets(t mesh_internal.transactions) RETURNS int
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  changed int;
BEGIN
  IF t.revision IS NULL THEN
    DELETE FROM mesh_internal.secret_changes c WHERE c.transaction_id = t.id AND c.after IS NOT DISTINCT FROM c.before;
  END IF;
  SELECT count(*) INTO changed FROM mesh_internal.secret_changes c WHERE c.transaction_id = t.id;
  IF changed > 0 AND t.confirm_within IS NOT NULL THEN
    PERFORM mesh_internal.refuse('MS006', NULL, NULL, NULL, '', 'a change of secrets cannot revert by itself: what they were is not kept',
      'commit the secrets by themselves, without mesh.commit_confirmed');
  END IF;
  UPDATE mesh_internal.transactions x SET secrets = changed > 0 WHERE x.id = t.id AND x.secrets <> (changed > 0);
  RETURN changed;
END $$;
