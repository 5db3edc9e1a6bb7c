-- No function of the schema has its queries compiled. Postgres compiles those that it estimates to
-- be costly, which takes a processor 50 ms and more, and each connection anew. Queries here take a
-- few milliseconds, and their estimates are high only where a table is new or nearly empty. That
-- holds in sessions of users, too, whose settings are not ours.
DO $$
DECLARE
  routine regprocedure;
BEGIN
  FOR routine IN
    -- Those without settings are called by those with, or become part of the query that calls them, which settings would prevent.
    SELECT p.oid FROM pg_proc p WHERE p.pronamespace = ANY ('{mesh,mesh_internal}'::regnamespace[]) AND p.prokind = 'f' AND p.proconfig IS NOT NULL
  LOOP
    EXECUTE format('ALTER FUNCTION %s SET jit = off', routine);
  END LOOP;
END $$;
