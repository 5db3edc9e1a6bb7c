package store_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
)

// sqlObjects is a page that is made from the comments of the schema.
const sqlObjects = "../docs/sql-objects.md"

// ofUsers are the tables and views of the schema mesh, but for the deprecated ones.
const ofUsers = `pg_class c WHERE c.relnamespace = 'mesh'::regnamespace AND c.relkind IN ('r', 'v')
	AND coalesce(obj_description(c.oid, 'pg_class'), '') NOT LIKE 'Deprecated%'`

// Whoever looks with \d+, \df+ or \dn+ is told what everything is.
func TestEverythingForUsersHasAComment(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	for _, without := range []string{
		"SELECT c.oid::regclass::text FROM " + ofUsers + " AND obj_description(c.oid, 'pg_class') IS NULL",
		"SELECT c.oid::regclass || '.' || a.attname FROM pg_attribute a, " + ofUsers + `
			AND a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND col_description(c.oid, a.attnum) IS NULL`,
		"SELECT oid::regprocedure::text FROM pg_proc WHERE pronamespace = 'mesh'::regnamespace AND obj_description(oid, 'pg_proc') IS NULL",
		"SELECT nspname::text FROM pg_namespace WHERE nspname LIKE 'mesh%' AND obj_description(oid, 'pg_namespace') IS NULL",
	} {
		require.Empty(t, collect[string](db, without), "say what it is with COMMENT ON, or make it in the schema mesh_internal")
	}
}

// The page has all that the schema mesh has, as its comments say it.
func TestSQLObjectsAreWhatTheCommentsSay(t *testing.T) {
	t.Parallel()
	page := pageOfObjects(connect(t, pgtest.New(t)))
	if *update {
		require.NoError(t, os.WriteFile(sqlObjects, []byte(page), 0o644))
		return
	}
	doc, err := os.ReadFile(sqlObjects)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(string(doc), page), "%s says otherwise: if what is new is for users, "+
		"go test ./store -run TestSQLObjects -update writes it; if not, make it in the schema mesh_internal", sqlObjects)
}

const introduction = "# What the schema mesh has\n\n" +
	"This page is made from the comments in the database, which `\\d+`, `\\df+` and `\\dn+` of psql show\n" +
	"too. [sql.md](sql.md) says how it is used. `go test ./store -run TestSQLObjects -update` writes the\npage.\n"

func pageOfObjects(db session) string {
	var page strings.Builder
	page.WriteString(introduction + "\n" + list(db, `SELECT format('**%s**: %s', nspname, obj_description(oid, 'pg_namespace'))
		FROM pg_namespace WHERE nspname IN ('mesh', 'mesh_internal') ORDER BY nspname`))
	page.WriteString("\n## Views of resources and of their parts\n\n" + list(db, `SELECT format('`+"`mesh.%s`"+`: %s', c.relname, obj_description(c.oid, 'pg_class'))
		FROM mesh_internal.editable_views v, `+ofUsers+` AND c.relname = v.view ORDER BY v.list <> '{}', c.relname`))
	page.WriteString("\n## Other tables and views\n")
	for _, relation := range collect[string](db, "SELECT c.oid::regclass::text FROM "+ofUsers+" AND c.relname NOT IN (SELECT view FROM mesh_internal.editable_views) ORDER BY c.relname") {
		page.WriteString("\n### " + relation + "\n\n" + wrapped(value[string](db, "SELECT obj_description($1::regclass, 'pg_class')", relation), "") + "\n")
		page.WriteString(list(db, `SELECT format('`+"`%s` (%s)"+`: %s', attname, format_type(atttypid, atttypmod), col_description(attrelid, attnum))
			FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum`, relation))
	}
	page.WriteString("\n## Functions\n\n" + list(db, `SELECT format('`+"`mesh.%s(%s)` returns `%s`"+`. %s', proname, pg_get_function_arguments(oid), pg_get_function_result(oid), obj_description(oid, 'pg_proc'))
		FROM pg_proc WHERE pronamespace = 'mesh'::regnamespace AND obj_description(oid, 'pg_proc') NOT LIKE 'Deprecated%' ORDER BY proname, oid::regprocedure::text`))
	return page.String()
}

// list writes a list of Markdown from the rows of a query.
func list(db session, query string, args ...any) string {
	var items strings.Builder
	for _, item := range collect[string](db, query, args...) {
		items.WriteString(wrapped("- "+item, "  "))
	}
	return items.String()
}

// wrapped breaks a text into lines of 100 columns at most, the second and later ones after an
// indent.
func wrapped(text, indent string) string {
	var lines strings.Builder
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case len([]rune(line))+1+len([]rune(word)) > 100:
			lines.WriteString(line + "\n")
			line = indent + word
		default:
			line += " " + word
		}
	}
	return lines.String() + line + "\n"
}
