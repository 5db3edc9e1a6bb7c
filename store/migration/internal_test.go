package migration_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store/migration"
)

// allInOneSchema is the last version of the schema in which everything was in the schema mesh.
const allInOneSchema = 38

// linksAlone is what 70_every_link.sql comes to in a mesh without registries.
const linksAlone = `CREATE VIEW mesh_internal.every_link AS SELECT l.*, true AS own, NULL::text AS registry, false AS hidden FROM mesh_internal.links l;
	CREATE VIEW mesh_internal.every_resource AS SELECT r.kind, r.api_group, r.namespace, r.name, r.spec, true AS own, NULL::text AS registry FROM mesh.resources r;
	CREATE FUNCTION mesh_internal.is_outranked(kind text, api_group text, namespace text, name text, registry text) RETURNS boolean LANGUAGE sql STABLE AS 'SELECT false';
	COMMENT ON VIEW mesh_internal.every_link IS 'Internal.'; COMMENT ON VIEW mesh_internal.every_resource IS 'Internal.';`

// older makes a database that of a program of that version. Its functions are those of today, by
// the names of then.
func older(t testing.TB, url string) storetest.Session {
	t.Helper()
	require.NoError(t, migration.Down(t.Context(), url, allInOneSchema, storetest.Quietly))
	db := storetest.Connect(t, url)
	paths, err := filepath.Glob("../sql/*.sql")
	require.NoError(t, err)
	var script strings.Builder
	for _, path := range paths {
		if filepath.Base(path) == "70_every_link.sql" {
			script.WriteString(linksAlone)
			continue
		}
		if name := filepath.Base(path); name == "05_schemas.sql" || name == "58_traces.sql" || name == "74_pending.sql" || name > "94" && name < "99" { // which came later
			continue
		}
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		script.Write(text)
	}
	script.WriteString("CREATE VIEW mesh_internal.every_problem AS TABLE mesh_internal.link_problems; COMMENT ON VIEW mesh_internal.every_problem IS 'Internal.';") // of which find_problems had a part then
	names := strings.NewReplacer("<> ALL ('{mesh,mesh_internal}'::regnamespace[])", "<> 'mesh'::regnamespace", "{mesh,mesh_internal}", "{mesh}",
		"EXISTS (SELECT FROM mesh_internal.registries)", "false",
		",\n    resources   = coalesce(last.resources + gained, (SELECT count(*) FROM mesh.resources))", "", "t.resources - (SELECT count(*) FROM mesh.resources)", "0", // which nobody counted
		"mesh, mesh_internal", "mesh", "mesh_internal", "mesh")
	_, err = db.Conn.PgConn().Exec(t.Context(), "SET check_function_bodies = off; "+names.Replace(script.String())).ReadAll()
	require.NoError(t, err)
	db.Exec(`DROP FUNCTION mesh.refuse_between_versions CASCADE; UPDATE mesh.installation SET code_digest = 'old', registry_digest = 'old';
		SELECT mesh.install_views(), mesh.refresh_privileges()`)
	return db
}

// What an older server and a tenant do goes on while a newer program moves what is internal, and
// afterwards.
func TestNobodyNoticesThatWhatIsInternalMoves(t *testing.T) {
	t.Parallel()
	y := storetest.NewTenancy(t)
	tenant, server := y.Role("tenant"), y.Role("server")
	y.Grant(tenant, "a", "write")
	y.Owner.Exec("SELECT mesh.grant_server($1)", server)
	y.Owner.Exec(fmt.Sprintf("ALTER ROLE %s SET deadlock_timeout = '1s'; ALTER ROLE %s SET deadlock_timeout = '1s'", tenant, server)) // as in production
	older(t, y.URL)

	ctx, cancel := context.WithCancel(t.Context())
	traffic, ctx := errgroup.WithContext(ctx)
	var written, read, served atomic.Int64
	traffic.Go(func() error {
		return over(ctx, y.Login(tenant), &written, "UPDATE mesh.virtual_services SET labels = '{\"n\": \"%d\"}' WHERE name = 'x'")
	})
	traffic.Go(func() error {
		return over(ctx, y.Login(tenant), &read, "SELECT %d, (SELECT count(*) FROM mesh.virtual_services), (SELECT count(*) FROM mesh.problems), (SELECT count(*) FROM (SELECT FROM mesh.history LIMIT 5) h)")
	})
	traffic.Go(func() error {
		return over(ctx, y.Login(server), &served, `SELECT max(t.revision) FROM mesh.transactions t JOIN mesh.changes c ON c.transaction_id = t.id WHERE t.id > %d;
			SELECT * FROM mesh.chores(), mesh.current_rules(); SELECT id FROM mesh.running_transaction; SELECT mesh.known_revision(1);
			SELECT mesh.note_trust('old', 'old', now()); SELECT secret FROM mesh.installation; SELECT * FROM mesh.trust_names, mesh.trust_readings`)
	})
	goOn := func() {
		for name, count := range map[string]*atomic.Int64{"writes": &written, "reads": &read, "the server": &served} {
			before := count.Load()
			poll.Within(t, time.Minute, func(context.Context) error {
				if done := count.Load() - before; done < 3 && ctx.Err() == nil {
					return fmt.Errorf("%s went on %d times", name, done)
				}
				return nil
			})
		}
	}
	goOn()
	require.NoError(t, migration.Up(t.Context(), y.URL))
	goOn()
	cancel()
	require.NoError(t, traffic.Wait())
	requireSameObjects(t, storetest.Connect(t, pgtest.New(t)), y.Owner)
}

// over runs statements with a number in them over and over, until the context ends or one fails.
func over(ctx context.Context, url string, count *atomic.Int64, statements string) error {
	ends := context.WithoutCancel(ctx)
	conn, err := pgx.Connect(ends, url)
	if err != nil {
		return err
	}
	defer conn.Close(ends)
	for ; ctx.Err() == nil; count.Add(1) {
		if _, err := conn.PgConn().Exec(ends, fmt.Sprintf(statements, count.Load())).ReadAll(); err != nil {
			return fmt.Errorf("after %d times: %w", count.Load(), err)
		}
	}
	return nil
}

// What others built on something internal stays on it.
func TestWhatDependsOnWhatIsInternalStays(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	db := older(t, url)
	db.Put("x", "a")
	db.Exec("CREATE VIEW authors AS SELECT mesh.in_words(count(*)) FROM mesh.transactions")
	require.NoError(t, migration.Up(t.Context(), url))
	db.Put("x", "b")
	require.Equal(t, "2 bytes", storetest.Value[string](db, "TABLE authors"))
}

// The role needs the right to create the schema once, and is told how to come by it.
func TestWhoMayNotCreateTheSchemaIsToldWhatToDo(t *testing.T) {
	t.Parallel()
	y := storetest.NewTenancy(t)
	db := older(t, y.URL)
	owner := y.Role("owner")
	db.Exec(`DO $$ DECLARE o text; BEGIN
		FOR o IN SELECT format('ALTER %s %s', CASE relkind WHEN 'r' THEN 'TABLE' ELSE 'VIEW' END, oid::regclass) FROM pg_class WHERE relnamespace = 'mesh'::regnamespace AND relkind IN ('r', 'v')
			UNION ALL SELECT 'ALTER FUNCTION ' || oid::regprocedure FROM pg_proc WHERE pronamespace = 'mesh'::regnamespace
			UNION ALL SELECT 'ALTER TYPE ' || t FROM unnest('{mesh.problem,mesh.link_problem}'::text[]) t UNION ALL SELECT 'ALTER SCHEMA mesh' LOOP
			EXECUTE o || ' OWNER TO ` + owner + `'; END LOOP; END $$`)
	err := migration.Up(t.Context(), y.Login(owner))
	require.ErrorContains(t, err, "this migration creates the schema mesh_internal, which the role "+owner+" may not")
	require.ErrorContains(t, err, "CREATE SCHEMA mesh_internal AUTHORIZATION "+owner)

	db.Exec("CREATE SCHEMA mesh_internal")
	require.ErrorContains(t, migration.Up(t.Context(), y.Login(owner)), "the schema mesh_internal belongs to "+db.Conn.Config().User)
	db.Exec("DROP SCHEMA mesh_internal; CREATE SCHEMA mesh_internal AUTHORIZATION " + owner)
	require.NoError(t, migration.Up(t.Context(), y.Login(owner)))
	db.Put("y", "a")
}
