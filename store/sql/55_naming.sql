-- What people say about the change of the running transaction.

CREATE OR REPLACE FUNCTION mesh.begin_change(message text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  t mesh_internal.transactions := mesh_internal.current_transaction();
BEGIN
  IF coalesce(btrim(message), '') = '' THEN
    RAISE invalid_parameter_value USING MESSAGE = 'a change cannot be named nothing', HINT = 'say in the message what the change is for';
  END IF;
  PERFORM set_config('mesh.message', message, true);
  IF t.xid IS NULL THEN
    INSERT INTO mesh_internal.transactions (id, message) VALUES (t.id, message);
  END IF;
  RETURN mesh.newest_revision();
END $$;

COMMENT ON FUNCTION mesh.begin_change IS 'Names the change that the running transaction makes; a later call renames it. Returns the newest revision, to which mesh.restore can go back.';

-- tell_of_no_change runs if a transaction was announced and changed nothing. Most likely each
-- statement was its own transaction.
CREATE OR REPLACE FUNCTION mesh_internal.tell_of_no_change(t mesh_internal.transactions) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF t.confirm_within IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'MS006', MESSAGE = 'there is nothing to confirm: this transaction changes no resource',
      HINT = 'call mesh.commit_confirmed in the transaction that makes the change, between BEGIN and COMMIT';
  ELSIF t.message <> '' THEN
    RAISE WARNING 'the change "%" is none: this transaction changes no resource', t.message
      USING HINT = 'call mesh.begin_change in the transaction that makes the change, between BEGIN and COMMIT';
  END IF;
END $$;
