-- Traces of revisions (docs/traces.md). Programs compute the same id, in internal/tracing.

-- trace_id returns a hash of a secret and a number, to everybody.
CREATE OR REPLACE FUNCTION mesh.trace_id(revision bigint) RETURNS text
LANGUAGE plpgsql STABLE STRICT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  mesh text := (SELECT left(encode(sha256(convert_to('pgmesh installation ' || secret, 'UTF8')), 'hex'), 32) FROM mesh_internal.installation);
BEGIN
  RETURN left(encode(sha256(convert_to('pgmesh trace ' || mesh || ' ' || revision, 'UTF8')), 'hex'), 32);
END $$;

COMMENT ON FUNCTION mesh.trace_id IS 'Returns the id of the trace that the programs record of a revision, if they were started with --traces-to.';
