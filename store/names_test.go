package store_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/kinds"
	named "github.com/pgmesh/pgmesh/kinds/reference"
)

// Names mean in SQL what they mean in Go.
func TestNamesAreCompletedAsInGo(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	for _, name := range []string{
		"", "*", "mesh", "reviews", "Reviews", "reviews.shop", "a.b.c", "A.Example.com", "*.example.com", "*-old", "*Old", "10.0.0.1", "fd00::1", "fd00::1%eth0",
		"./edge", "ingress/edge", "ingress/edge.b", "edge.ingress.svc.cluster.local", "edge.", ".edge", "/edge", "a/b/c", "edge./b",
	} {
		require.Equal(t, named.FullHost(name, "shop"), value[string](db, "SELECT mesh_internal.full_host($1, 'shop')", name), name)
		require.Equal(t, named.FullHost(name, ""), value[string](db, "SELECT mesh_internal.full_host($1, '')", name), name)
		require.Equal(t, named.FullGateway(name, "shop"), value[string](db, "SELECT mesh_internal.full_gateway($1, 'shop')", name), name)
	}
}

// What the database finds in specs is what the table of kinds/reference leads to.
func TestTheDatabaseFindsWhatTheTableSays(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	files, err := filepath.Glob("../kinds/testdata/valid/[^m]*.yaml") // without what is for the mesh as a whole, and names nothing here
	require.NoError(t, err)
	seen := map[string]bool{} // by kind and path of the table
	for _, file := range append(files, "../kinds/testdata/every-kind.yaml", "testdata/names.yaml") {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, d := range eachDocument(t, file, string(text)) {
			var spec any
			require.NoError(t, json.Unmarshal(d.Spec, &spec))
			var want []string
			named.Each(d.Resource.Kind, spec, func(path string, n *named.Named, value any) {
				if n.Role != "" && namesSomething(n.Form, value) {
					want = append(want, n.Role+" "+path)
					seen[d.Resource.Kind.Group+"/"+d.Resource.Kind.Name+" "+n.Path] = true
				}
			})
			rows, err := db.Conn.Query(t.Context(), "SELECT role || ' ' || path FROM mesh_internal.names_in($1, $2, $3, $4)", d.Resource.Kind.Name, d.Resource.Kind.Group, d.Resource.Namespace, d.Spec)
			require.NoError(t, err)
			got, err := pgx.CollectRows(rows, pgx.RowTo[string])
			require.NoError(t, err)
			require.ElementsMatch(t, want, got, "%s: %s", file, d.Resource.Key())
		}
	}
	for _, k := range kinds.All() {
		for _, n := range named.Of(k) {
			require.True(t, n.Role == "" || seen[k.Group+"/"+k.Name+" "+n.Path], "no example names something in %s of %s: add one to testdata/names.yaml", n.Path, k)
		}
	}
}

// A transaction that changes much is read by other queries than one that changes little.
func TestManyChangesLeaveTheLinksOfEach(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	text, err := os.ReadFile("testdata/names.yaml")
	require.NoError(t, err)
	db.Exec("BEGIN")
	db.Exec(`INSERT INTO mesh.resources (kind, namespace, name, spec) SELECT 'WorkloadEntry', 'shop', 'w' || n, '{"address": "10.0.0.1"}' FROM generate_series(1, 101) n`)
	for _, d := range eachDocument(t, "names.yaml", string(text)) {
		db.Exec("INSERT INTO mesh.resources (api_group, kind, namespace, name, spec) VALUES ($1, $2, $3, $4, $5)", d.Resource.Kind.Group, d.Resource.Kind.Name, d.Resource.Namespace, d.Resource.Name, d.Spec)
	}
	db.Exec("COMMIT")
	db.Exec("CREATE TABLE kept AS SELECT * FROM mesh_internal.links; DELETE FROM mesh_internal.links; SELECT mesh_internal.rebuild_links()")
	require.Positive(t, value[int](db, "SELECT count(*) FROM kept"))
	require.Zero(t, value[int](db, "SELECT count(*) FROM ((TABLE kept EXCEPT ALL TABLE mesh_internal.links) UNION ALL (TABLE mesh_internal.links EXCEPT ALL TABLE kept)) d"))
}

// eachDocument reads the documents of a file each by itself, for several have one name.
func eachDocument(t *testing.T, file, text string) (all []*kinds.Document) {
	t.Helper()
	for part := range strings.SplitSeq(text, "\n---\n") {
		documents, err := kinds.Parse(file, []byte(part))
		require.NoError(t, err)
		all = append(all, documents...)
	}
	return all
}

// namesSomething reports whether a value of a form names something that the database looks for.
func namesSomething(form named.Form, value any) bool {
	object, _ := value.(map[string]any)
	switch form {
	case named.GatewayForm:
		return value != named.Mesh
	case named.DestinationForm, named.FullHostForm:
		return object["host"] != nil
	case named.CredentialForm:
		text, _ := value.(string)
		return text != "" && text[:min(9, len(text))] != "configmap"
	case named.PullSecretForm:
		return value != ""
	case named.SecretForm:
		return object["name"] != nil && (object["kind"] == nil || object["kind"] == "Secret")
	default:
		return object["name"] != nil
	}
}
