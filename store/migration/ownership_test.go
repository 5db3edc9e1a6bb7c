package migration_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store/migration"
)

// owned is a mesh that belongs to a role that is no superuser.
type owned struct {
	storetest.Tenancy

	owner string
}

func newOwned(t *testing.T) owned {
	t.Helper()
	o := owned{Tenancy: storetest.NewTenancy(t)}
	o.owner = o.Role("owner")
	require.NoError(t, migration.Down(t.Context(), o.URL, 0, storetest.Quietly))
	o.Owner.Exec("DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO " + o.owner + "', current_database()); END $$")
	require.NoError(t, migration.Up(t.Context(), o.Login(o.owner)))
	return o
}

// works fails unless the owner can use the mesh, and everything in it is its own.
func (o owned) works(t *testing.T) {
	t.Helper()
	session := o.As(o.owner)
	session.Put("x", "a")
	session.Exec("DELETE FROM mesh.resources")
	require.Empty(t, told(session))
	require.Equal(t, []string{o.owner}, storetest.Collect[string](o.Owner, `
		SELECT DISTINCT pg_get_userbyid(owner) FROM (
			SELECT relowner FROM pg_class WHERE relnamespace = ANY ('{mesh,mesh_internal}'::regnamespace[])
			UNION SELECT proowner FROM pg_proc WHERE pronamespace = ANY ('{mesh,mesh_internal}'::regnamespace[])
			UNION SELECT nspowner FROM pg_namespace WHERE nspname IN ('mesh', 'mesh_internal')) o (owner)`))
}

// up migrates, and returns what that says.
func (o owned) up(t *testing.T, url string) (said []string) {
	t.Helper()
	require.NoError(t, migration.UpTelling(t.Context(), url, func(line string) { said = append(said, line) }))
	return said
}

func told(session storetest.Session) []string {
	return storetest.Collect[string](session, "SELECT format('%s %s %s: %s', kind, name, difference, advice) FROM mesh.check_installation()")
}

func TestWhoeverMigratesActsAsTheOwner(t *testing.T) {
	t.Parallel()
	o := newOwned(t)
	member := o.Role("member")
	o.Owner.Exec("GRANT " + o.owner + " TO " + member)
	newest := storetest.Value[int64](o.Owner, "SELECT max(version_id) FROM mesh.schema_version")
	psql := o.Owner.Program("psql")
	for who, up := range map[string]func(){
		"a superuser": func() { require.NoError(t, migration.Up(t.Context(), o.URL)) },
		"a member":    func() { require.NoError(t, migration.Up(t.Context(), o.Login(member))) },
		"a script of a superuser": func() {
			var script strings.Builder
			require.NoError(t, migration.WriteScript(&script, newest-1))
			storetest.Run(t, []byte(script.String()), psql, "-qX", "-d", o.URL)
		},
	} {
		require.NoError(t, migration.Down(t.Context(), o.Login(o.owner), newest-1, storetest.Quietly), who)
		up()
		o.works(t)
	}
}

// What belongs to somebody else, as after a restore, is told, and a superuser gives it back.
func TestWhatTheOwnerDoesNotOwnIsToldAndGivenBack(t *testing.T) {
	t.Parallel()
	o := newOwned(t)
	super := storetest.Value[string](o.Owner, "SELECT current_user")
	o.Owner.Exec("CREATE VIEW mesh.of_the_superuser AS SELECT 1")
	o.Owner.Exec("ALTER TABLE mesh.settings OWNER TO " + super + "; ALTER VIEW mesh.problems OWNER TO " + super + "; ALTER FUNCTION mesh.newest_revision() OWNER TO " + super)
	session := o.As(o.owner)
	require.Equal(t, "42501", session.Refused("SELECT FROM mesh.settings").Code)
	belongs := " belongs to " + super + ", and not to the owner of the mesh, " + o.owner + ", who may not use it: run: ALTER "
	back := " OWNER TO " + o.owner + "; or mcp-server migrate up as a superuser, which gives it all back"
	rows := []string{
		"function mesh.newest_revision()" + belongs + "ROUTINE mesh.newest_revision()" + back, "table mesh.settings" + belongs + "TABLE mesh.settings" + back,
		"view mesh.problems" + belongs + "VIEW mesh.problems" + back,
	}
	require.Subset(t, told(session), rows)
	require.Len(t, told(session), len(rows)+1, "and the view that was added")

	require.Equal(t, []string{"gave " + o.owner + " back what is its own: function mesh.newest_revision(), table mesh.settings, view mesh.problems"}, o.up(t, o.URL))
	require.Equal(t, super, storetest.Value[string](o.Owner, "SELECT pg_get_userbyid(relowner) FROM pg_class WHERE relname = 'of_the_superuser'"), "it is not of the mesh")
	session.Exec("SELECT mesh.grant_namespace('" + o.Role("tenant") + "', 'a', 'write'), mesh.grant_server('" + o.Role("server") + "')")
	o.Owner.Exec("DROP VIEW mesh.of_the_superuser")
	o.works(t)

	o.Owner.Exec("DO $$ DECLARE v regclass; BEGIN FOR v IN SELECT oid FROM pg_class WHERE relnamespace = 'mesh'::regnamespace AND relkind = 'v' ORDER BY oid LIMIT 12 LOOP EXECUTE format('ALTER VIEW %s OWNER TO " + super + "', v); END LOOP; END $$")
	said := o.up(t, o.URL)
	require.Len(t, said, 1)
	require.Regexp(t, "(, view mesh[.][a-z_]+){9}, and 2 more$", said[0])
}

func TestTheOwnerIsGivenBackWhatWasRevoked(t *testing.T) {
	t.Parallel()
	o := newOwned(t)
	o.Owner.Exec("REVOKE ALL ON mesh.settings, mesh.resources FROM " + o.owner + "; REVOKE DELETE ON mesh_internal.changes FROM " + o.owner +
		"; REVOKE ALL ON FUNCTION mesh.newest_revision() FROM PUBLIC, " + o.owner)
	const privileges = "privileges on "
	require.Equal(t, []string{"gave " + o.owner + " back what is its own: " + privileges + "function mesh.newest_revision(), " + privileges + "table mesh.resources, " +
		privileges + "table mesh.settings, " + privileges + "table mesh_internal.changes"}, o.up(t, o.Login(o.owner)))
	require.Empty(t, o.up(t, o.Login(o.owner)))
	o.works(t)
	require.Empty(t, storetest.Collect[string](o.Owner, "SELECT c.oid::regclass::text FROM pg_class c WHERE c.relnamespace = ANY ('{mesh,mesh_internal}'::regnamespace[]) AND c.relkind IN ('r', 'v') AND NOT has_table_privilege(c.relowner, c.oid, 'DELETE')"))
}

// All that is lost with rows of the table of versions are those, and the error says how they come back.
func TestLostVersionsComeBack(t *testing.T) {
	t.Parallel()
	o := newOwned(t)
	session := o.As(o.owner)
	session.Put("x", "a")
	for _, lose := range []string{"DELETE FROM mesh.schema_version", "TRUNCATE mesh.schema_version", "DELETE FROM mesh.schema_version WHERE version_id = (SELECT max(version_id) FROM mesh.schema_version)"} {
		session.Exec(lose)
		_, err := migration.ReadStatus(t.Context(), o.Login(o.owner))
		lost := &migration.VersionsLostError{}
		require.ErrorAs(t, err, &lost, lose)
		require.ErrorAs(t, migration.Up(t.Context(), o.Login(o.owner)), &lost, lose)
		_, back, found := strings.Cut(lost.Error(), "Run in psql: ")
		require.True(t, found)
		session.Exec(back)
		status, err := migration.ReadStatus(t.Context(), o.Login(o.owner))
		require.NoError(t, err)
		require.True(t, status.Fits())
		require.NoError(t, migration.Up(t.Context(), o.Login(o.owner)))
	}
	require.Equal(t, int64(1), session.Newest())
}

// Whoever drops what compares is told, too.
func TestWhoCannotCompareIsTold(t *testing.T) {
	t.Parallel()
	o := newOwned(t)
	o.Owner.Exec("DROP FUNCTION mesh.check_installation()")
	status, err := migration.ReadStatus(t.Context(), o.Login(o.owner))
	require.NoError(t, err)
	anew, left := status.Remakes()
	require.Empty(t, left)
	require.Len(t, anew, 1)
	require.NoError(t, migration.Up(t.Context(), o.Login(o.owner)))
	o.works(t)
}
