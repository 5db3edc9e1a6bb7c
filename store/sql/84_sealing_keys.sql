-- add_sealing_key stores how servers get a key, if there are still as many as the caller has seen,
-- and reports whether it did. So of two servers that find no key, one makes it.
CREATE OR REPLACE FUNCTION mesh_internal.add_sealing_key(id text, wrapped text, known integer) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM mesh_internal.require_server('make keys that encrypt secrets');
  LOCK TABLE mesh.sealing_keys IN SHARE ROW EXCLUSIVE MODE;
  IF (SELECT count(*) FROM mesh.sealing_keys) <> known THEN
    RETURN false;
  END IF;
  INSERT INTO mesh.sealing_keys (id, wrapped, author) VALUES (id, wrapped, mesh_internal.author());
  RETURN true;
END $$;

COMMENT ON FUNCTION mesh_internal.add_sealing_key IS 'Internal. For mcp-server.';
