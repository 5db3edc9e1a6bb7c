package store

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"strings"

	"github.com/jackc/pgx/v5"
)

// The functions, views and triggers, one file for each idea, in an order in which they can be installed.
// Unlike tables they have no migrations: a program that migrates replaces them all if they differ from
// its own. What is replaced keeps its grants and dependents. So a view may get new columns only at its
// end, and a function that goes, or changes its arguments, must be dropped by a migration.
//
//go:generate go run ./internal/linkgen -o sql/69_references.sql
//go:embed sql/*.sql
var codeFiles embed.FS

// code returns all of it as one script.
func code() (string, error) {
	names, err := fs.Glob(codeFiles, "sql/*.sql") // sorted
	if err != nil {
		return "", err
	}
	var script strings.Builder
	for _, name := range names {
		text, err := codeFiles.ReadFile(name)
		if err != nil {
			return "", err
		}
		script.Write(text)
	}
	return script.String(), nil
}

func digestOf(script string) string {
	sum := sha256.Sum256([]byte(script))
	return hex.EncodeToString(sum[:])
}

// syncCode installs the code of this program, unless the database has it.
func syncCode(ctx context.Context, conn *pgx.Conn) error {
	script, err := code()
	if err != nil {
		return err
	}
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		changed, err := tx.Exec(ctx, "UPDATE mesh.installation SET code_digest = $1 WHERE code_digest <> $1", digestOf(script))
		if err != nil || changed.RowsAffected() == 0 {
			return err
		}
		if err := lockEverything(ctx, tx); err != nil {
			return err
		}
		// The files are in order for views. Bodies of functions may use what comes later.
		_, err = tx.Exec(ctx, "SET LOCAL check_function_bodies = off;\n"+script+unblockWrites)
		return err
	})
	return Explain("installing the functions and views of the schema", err)
}

// dropCode removes the code before the tables become those of an older program. Nobody can write until
// that program has installed its own.
func dropCode(ctx context.Context, conn *pgx.Conn) error {
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if err := lockEverything(ctx, tx); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, blockWrites+dropCodeScript)
		return err
	})
	return Explain("removing the functions and views of the schema", err)
}

// dropCodeScript drops what code installed, but nothing that others built on it: then Postgres refuses
// and names that. It also clears the digest of the registry, whose tables may go.
const dropCodeScript = `
DO $$
DECLARE
  old record;
BEGIN
  FOR old IN
    SELECT tgname, tgrelid::regclass AS relation FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
    WHERE c.relnamespace = 'mesh'::regnamespace AND c.relkind IN ('r', 'p') AND NOT t.tgisinternal AND tgname <> 'refuse_between_versions'
  LOOP
    EXECUTE format('DROP TRIGGER %I ON %s', old.tgname, old.relation);
  END LOOP;
  FOR old IN
    SELECT c.oid::regclass AS relation FROM pg_class c WHERE c.relnamespace = 'mesh'::regnamespace AND c.relkind = 'v' ORDER BY c.oid DESC
  LOOP
    EXECUTE format('DROP VIEW %s', old.relation);
  END LOOP;
  FOR old IN
    SELECT polname, polrelid::regclass AS relation FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid WHERE c.relnamespace = 'mesh'::regnamespace
  LOOP
    EXECUTE format('DROP POLICY %I ON %s', old.polname, old.relation);
  END LOOP;
  FOR old IN
    SELECT p.oid::regprocedure AS routine FROM pg_proc p WHERE p.pronamespace = 'mesh'::regnamespace AND proname <> 'refuse_between_versions' ORDER BY p.oid DESC
  LOOP
    EXECUTE format('DROP ROUTINE %s', old.routine);
  END LOOP;
  IF EXISTS (SELECT FROM information_schema.columns WHERE table_schema = 'mesh' AND table_name = 'installation' AND column_name = 'code_digest') THEN
    UPDATE mesh.installation SET code_digest = '', registry_digest = '';
  END IF;
END $$;
`

// blockWrites prevents writes while there is no code that would record them.
const blockWrites = `
CREATE OR REPLACE FUNCTION mesh.refuse_between_versions() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = 'MS003', MESSAGE = 'the schema is between two versions, and nothing can be written',
    HINT = 'run mcp-server migrate up, of the program that is to use it';
END $$;
DO $$
BEGIN
  IF to_regclass('mesh.resources') IS NOT NULL THEN
    DROP TRIGGER IF EXISTS refuse_between_versions ON mesh.resources;
    CREATE TRIGGER refuse_between_versions BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON mesh.resources
      FOR EACH STATEMENT EXECUTE FUNCTION mesh.refuse_between_versions();
  END IF;
  IF to_regclass('mesh.secrets') IS NOT NULL THEN
    DROP TRIGGER IF EXISTS refuse_between_versions ON mesh.secrets;
    CREATE TRIGGER refuse_between_versions BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON mesh.secrets
      FOR EACH STATEMENT EXECUTE FUNCTION mesh.refuse_between_versions();
  END IF;
END $$;
`

const unblockWrites = `
DROP FUNCTION IF EXISTS mesh.refuse_between_versions CASCADE;
`
