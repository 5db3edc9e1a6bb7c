package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// dump is the output of kubectl for a cluster.
const dump = `apiVersion: v1
kind: List
metadata: {resourceVersion: ""}
items:
- apiVersion: networking.istio.io/v1
  kind: VirtualService
  metadata:
    name: reviews
    namespace: shop
    uid: 0b9c8c5e-4d33-4f0c-8d2c-111111111111
    resourceVersion: "4711"
    generation: 3
    creationTimestamp: "2025-03-01T12:00:00Z"
    managedFields: [{manager: kubectl, operation: Apply}]
    ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: x, uid: y}]
    annotations:
      kubectl.kubernetes.io/last-applied-configuration: '{"kind": "VirtualService"}'
      team: shop
  spec: {hosts: [reviews], http: [{route: [{destination: {host: reviews}, weight: 0}, {destination: {host: reviews}, weight: 100}]}]}
  status: {observedGeneration: 3}
- {apiVersion: v1, kind: Service, metadata: {name: reviews}, spec: {clusterIP: 10.0.0.1}}
- {apiVersion: v1, kind: Service, metadata: {name: ratings}, spec: {clusterIP: 10.0.0.2}}
- {apiVersion: apps/v1, kind: Deployment, metadata: {name: reviews}, spec: {replicas: 1}}
`

func TestImportClusterDump(t *testing.T) {
	t.Parallel()
	m := start(t)
	r := m.pipe(dump, "import", "-", "-m", "from the cluster")
	require.Zero(t, r.code, r.err)
	require.Contains(t, r.err, "2 Service (v1), 1 Deployment (apps/v1). Services of Kubernetes are not known to this mesh: write a ServiceEntry")
	require.Contains(t, r.out, "virtualservice   1         0            0           0")
	require.Contains(t, r.out, "revision 1\n")
	var stored, message string
	m.query("SELECT (to_jsonb(r) - '{xid,generation,created_at,updated_at,api_group,rules}'::text[])::text FROM mesh.resources r", &stored)
	require.JSONEq(t, `{"kind": "VirtualService", "namespace": "shop", "name": "reviews", "labels": {}, "annotations": {"team": "shop"}, "spec":
		{"hosts": ["reviews"], "http": [{"route": [{"destination": {"host": "reviews"}, "weight": 0}, {"destination": {"host": "reviews"}, "weight": 100}]}]}}`, stored)
	m.query("SELECT message FROM mesh.revisions", &message)
	require.Equal(t, "from the cluster", message)

	again := m.pipe(dump, "import", "-", "-o", "json")
	require.Zero(t, again.code, again.err)
	var answer struct {
		Revision int
		Kinds    []map[string]any
		Skipped  []map[string]any
	}
	require.NoError(t, json.Unmarshal([]byte(again.out), &answer))
	require.Zero(t, answer.Revision)
	require.InDelta(t, 1, answer.Kinds[0]["unchanged"], 0)
	require.Len(t, answer.Skipped, 2)

	strict := m.pipe(dump, "import", "-", "--strict")
	require.Equal(t, 3, strict.code)
	require.Contains(t, strict.err, `unknown kind "Deployment"`)
}

func TestImportReportsAllMistakesAndChangesNothing(t *testing.T) {
	t.Parallel()
	m := start(t)
	wrong := strings.Replace(virtualService("shop", "b", "b"), "route:", "rout:", 1)
	dir := folder(t, map[string]string{
		"a.yaml":     virtualService("shop", "a", "a") + both + wrong,
		"deep/b.yml": wrong + both + virtualService("shop", "c", "c"), "deep/x.txt": "not ours",
	})
	r := m.run("import", dir)
	require.Equal(t, 3, r.code)
	require.Contains(t, r.err, "a.yaml: document 2, line")
	require.Contains(t, r.err, "deep/b.yml: document 1, line")
	require.Equal(t, 2, strings.Count(r.err, `unknown field "rout"`))
	require.Zero(t, m.stored())

	// What only the server can see is answer with its place too.
	dir = folder(t, map[string]string{"a.yaml": virtualService("shop", "a", "a"), "b.yaml": both + virtualService("shop", "a", "a")})
	r = m.run("import", dir)
	require.Equal(t, 3, r.code)
	require.Contains(t, r.err, "duplicate of "+filepath.Join(dir, "a.yaml")+", document 1, line 1")
	require.Zero(t, m.stored())

	for _, args := range [][]string{
		{"import"},
		{"import", dir, "--prune"},
		{"import", dir, "--prune-namespace", "shop"},
		{"import", dir, "--prune", "--prune-namespace", "shop"},
		{"import", dir, "--prune", "--prune-namespace", "shop", "--prune-kind", "x", "--yes"},
	} {
		require.Equal(t, 2, m.run(args...).code, args)
	}
	nothing := m.pipe("{apiVersion: v1, kind: Service}", "import", "-")
	require.Equal(t, 1, nothing.code)
	require.Contains(t, nothing.err, "there is no resource of a mesh in -; left out")
}

// An import larger than one message is still one revision.
func TestLargeImportIsOneRevision(t *testing.T) {
	t.Parallel()
	m := start(t)
	var text strings.Builder
	for i := range 1201 {
		fmt.Fprintf(&text, "---\n%s", virtualService("shop", fmt.Sprintf("v%d", i), "a"))
	}
	dry := m.pipe(text.String(), "import", "-", "--dry-run")
	require.Zero(t, dry.code, dry.err)
	require.Contains(t, dry.out, "virtualservice   1201 ")
	require.Contains(t, dry.out, "dry run: nothing was changed")
	require.Zero(t, m.stored())

	r := m.pipe(text.String(), "import", "-")
	require.Zero(t, r.code, r.err)
	require.Contains(t, r.out, "revision 1\n")
	require.Equal(t, 1201, m.stored())
	require.Equal(t, 11, strings.Count(r.err, "\n"), "ten warnings and how many more; a bar is for people at a terminal")
	require.Contains(t, r.err, "warning: and 1191 more problems")
}

func TestImportPrunes(t *testing.T) {
	t.Parallel()
	m := start(t)
	entry := "apiVersion: networking.istio.io/v1\nkind: WorkloadEntry\nmetadata: {name: w, namespace: shop}\nspec: {address: 10.0.0.1}\n"
	m.apply(virtualService("shop", "kept", "a") + both + virtualService("shop", "gone", "a") + both + virtualService("other", "there", "a") + both + entry)
	prune := func(args ...string) result {
		return m.pipe(virtualService("shop", "kept", "a"), append([]string{"import", "-", "--prune", "--prune-namespace", "shop"}, args...)...)
	}
	dry := prune("--dry-run")
	require.Zero(t, dry.code, dry.err)
	require.Contains(t, dry.out, "virtualservice shop/gone deleted")
	require.Contains(t, dry.out, "workloadentry shop/w deleted")
	require.Equal(t, 4, m.stored())
	require.Zero(t, prune("--yes", "--prune-kind", "vs").code)
	require.Equal(t, 3, m.stored())
	require.Zero(t, prune("--yes").code)
	require.Equal(t, 2, m.stored())
	require.Contains(t, m.ok("export"), "name: there")
}

// everything returns the stored resources without revision numbers and times.
func (m *mesh) everything() (text string) {
	m.t.Helper()
	m.query(`SELECT coalesce(string_agg((to_jsonb(r) - '{xid,generation,created_at,updated_at,rules}'::text[])::text, E'\n' ORDER BY kind, api_group, namespace, name), '')
		FROM mesh.resources r`, &text)
	return text
}

func TestExportCanBeImported(t *testing.T) {
	t.Parallel()
	all, err := os.ReadFile("../../kinds/testdata/every-kind.yaml")
	require.NoError(t, err)
	m := start(t)
	explicitZero := strings.Replace(virtualService("shop", "zero", "a"), "weight: 100", "weight: 0", 1)
	loaded := m.pipe(string(all)+both+explicitZero, "import", "-")
	require.Zero(t, loaded.code, loaded.err)
	dir := filepath.Join(t.TempDir(), "mesh")
	require.Contains(t, m.ok("export", dir), "resources in "+dir)
	require.FileExists(t, filepath.Join(dir, "shop", "virtualservice", "zero.yaml"))
	stream := m.ok("export")
	require.Equal(t, stream, m.ok("export"), "the order is the same each time")

	for _, source := range []string{dir, "-"} {
		other := start(t)
		r := other.pipe(stream, "import", source)
		require.Zero(t, r.code, r.err)
		require.Equal(t, m.everything(), other.everything())
		require.Equal(t, stream, other.ok("export"))
	}
	full := m.run("export", dir)
	require.Equal(t, 1, full.code)
	require.Contains(t, full.err, "is not empty")
}

func TestPartialExport(t *testing.T) {
	t.Parallel()
	m := start(t)
	m.apply(virtualService("shop", "x", "before") + both + virtualService("other", "why", "b"))
	m.apply(virtualService("shop", "x", "after"))
	require.NotContains(t, m.ok("export", "-n", "shop"), "name: why")
	require.Contains(t, m.ok("export"), "name: why")
	require.Empty(t, m.ok("export", "--kind", "dr"))
	require.Contains(t, m.ok("export", "--kind", "vs,dr"), "host: after")
	require.Contains(t, m.ok("export", "--revision", "1"), "host: before")
	require.Equal(t, 1, m.run("export", "--revision", "99").code)
	require.Equal(t, 2, m.run("export", "--kind", "nothing").code)
}
