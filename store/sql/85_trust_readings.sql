-- Servers note as of when they go by what the mesh trusts. By that, whoever revokes knows where it is in force: times are the database's, and what was
-- committed before a reading began is in it.

-- note_trust notes as of when a server goes by what is trusted, and forgets servers that are gone. Without a time the server goes.
CREATE OR REPLACE FUNCTION mesh_internal.note_trust(server text, name text, read_at timestamptz) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM mesh_internal.require_server('note what servers trust');
  DELETE FROM mesh_internal.trust_readings t WHERE t.server = note_trust.server AND note_trust.read_at IS NULL OR t.noted_at < now() - interval '1 hour';
  INSERT INTO mesh_internal.trust_readings (server, name, read_at, noted_at)
    SELECT note_trust.server, note_trust.name, note_trust.read_at, now() WHERE note_trust.read_at IS NOT NULL
    ON CONFLICT ON CONSTRAINT trust_readings_pkey DO UPDATE SET read_at = EXCLUDED.read_at, noted_at = EXCLUDED.noted_at;
END $$;
