-- Some work is for functions of the schema and for migrations alone: to write the columns that nobody
-- sets by hand (numbering), what the programs know about kinds (registry), and what is stored already
-- (adopting). They say that they do it, and nobody else can: the setting of the work has the secret of
-- the installation meanwhile.

-- begin_own_work is called before. It holds until end_own_work, or the end of the transaction.
CREATE OR REPLACE FUNCTION mesh_internal.begin_own_work(work text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  RETURN set_config('mesh.' || work, (SELECT secret FROM mesh_internal.installation)::text, true);
END $$;

CREATE OR REPLACE FUNCTION mesh_internal.end_own_work(work text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  RETURN set_config('mesh.' || work, '', true);
END $$;

-- does_own_work reports whether it was called, and refuses people who set it by hand.
CREATE OR REPLACE FUNCTION mesh_internal.does_own_work(work text) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
DECLARE
  told text := coalesce(current_setting('mesh.' || work, true), '');
BEGIN
  IF told = '' THEN
    RETURN false;
  ELSIF told = (SELECT secret FROM mesh_internal.installation)::text THEN
    RETURN true;
  END IF;
  PERFORM mesh_internal.refuse('MS003', NULL, NULL, NULL, '', format('the setting mesh.%s is not for people', work), format('write RESET mesh.%s', work));
END $$;

-- Of earlier programs, which had functions for each of them.
DROP FUNCTION IF EXISTS mesh_internal.begin_numbering();
DROP FUNCTION IF EXISTS mesh_internal.end_numbering();
DROP FUNCTION IF EXISTS mesh_internal.is_numbering();
DROP FUNCTION IF EXISTS mesh_internal.begin_registry();
DROP FUNCTION IF EXISTS mesh_internal.end_registry();
DROP FUNCTION IF EXISTS mesh_internal.is_adopting();
