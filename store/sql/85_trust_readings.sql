-- Servers record the time of the state of trust that they use. So whoever revokes knows where that
-- is in force. Times are the database's, and a reading includes everything committed before it
-- began.

-- note_trust records the time of the state of trust that a server uses, and deletes servers that
-- are gone. Without a time it deletes the server.
CREATE OR REPLACE FUNCTION mesh_internal.note_trust(server text, name text, read_at timestamptz) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM mesh_internal.require_server('note what servers trust');
  DELETE FROM mesh_internal.trust_readings t WHERE t.server = note_trust.server AND note_trust.read_at IS NULL OR t.noted_at < now() - interval '1 hour';
  INSERT INTO mesh_internal.trust_readings (server, name, read_at, noted_at)
    SELECT note_trust.server, note_trust.name, note_trust.read_at, now() WHERE note_trust.read_at IS NOT NULL
    ON CONFLICT ON CONSTRAINT trust_readings_pkey DO UPDATE SET read_at = EXCLUDED.read_at, noted_at = EXCLUDED.noted_at;
END $$;
