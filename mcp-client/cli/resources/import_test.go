package resources_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
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
	m := clitest.Start(t)
	r := m.Pipe(dump, "import", "-", "-m", "from the cluster")
	require.Zero(t, r.Code, r.Err)
	require.Contains(t, r.Err, "2 Service (v1), 1 Deployment (apps/v1). To have the Services of Kubernetes in the mesh, say --from kubernetes to import")
	require.Contains(t, r.Out, "virtualservice   1         0            0           0")
	require.Contains(t, r.Out, "revision 1\n")
	var stored, message string
	m.Query("SELECT (to_jsonb(r) - '{xid,generation,created_at,updated_at,api_group,rules}'::text[])::text FROM mesh.resources r", &stored)
	require.JSONEq(t, `{"kind": "VirtualService", "namespace": "shop", "name": "reviews", "labels": {}, "annotations": {"team": "shop"}, "spec":
		{"hosts": ["reviews"], "http": [{"route": [{"destination": {"host": "reviews"}, "weight": 0}, {"destination": {"host": "reviews"}, "weight": 100}]}]}}`, stored)
	m.Query("SELECT message FROM mesh.revisions", &message)
	require.Equal(t, "from the cluster", message)

	again := m.Pipe(dump, "import", "-", "-o", "json")
	require.Zero(t, again.Code, again.Err)
	var answer struct {
		Revision int
		Kinds    []map[string]any
		Skipped  []map[string]any
	}
	require.NoError(t, json.Unmarshal([]byte(again.Out), &answer))
	require.Zero(t, answer.Revision)
	require.InDelta(t, 1, answer.Kinds[0]["unchanged"], 0)
	require.Len(t, answer.Skipped, 2)

	strict := m.Pipe(dump, "import", "-", "--strict")
	require.Equal(t, 3, strict.Code)
	require.Contains(t, strict.Err, `unknown kind "Deployment"`)
}

func TestImportReportsAllMistakesAndChangesNothing(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	wrong := strings.Replace(clitest.VirtualService("shop", "b", "b"), "route:", "rout:", 1)
	dir := clitest.Folder(t, map[string]string{
		"a.yaml":     clitest.VirtualService("shop", "a", "a") + clitest.Separator + wrong,
		"deep/b.yml": wrong + clitest.Separator + clitest.VirtualService("shop", "c", "c"), "deep/x.txt": "not ours",
	})
	r := m.Run("import", dir)
	require.Equal(t, 3, r.Code)
	require.Contains(t, r.Err, "a.yaml: document 2, line")
	require.Contains(t, r.Err, "deep/b.yml: document 1, line")
	require.Equal(t, 2, strings.Count(r.Err, `unknown field "rout"`))
	require.Zero(t, m.Stored())

	// What only the server can see is answer with its place too.
	dir = clitest.Folder(t, map[string]string{"a.yaml": clitest.VirtualService("shop", "a", "a"), "b.yaml": clitest.Separator + clitest.VirtualService("shop", "a", "a")})
	r = m.Run("import", dir)
	require.Equal(t, 3, r.Code)
	require.Contains(t, r.Err, "duplicate of "+filepath.Join(dir, "a.yaml")+", document 1, line 1")
	require.Zero(t, m.Stored())

	for _, args := range [][]string{
		{"import"},
		{"import", dir, "--prune"},
		{"import", dir, "--prune-namespace", "shop"},
		{"import", dir, "--prune", "--prune-namespace", "shop"},
		{"import", dir, "--prune", "--prune-namespace", "shop", "--prune-kind", "x", "--yes"},
	} {
		require.Equal(t, 2, m.Run(args...).Code, args)
	}
	nothing := m.Pipe("{apiVersion: v1, kind: Service}", "import", "-")
	require.Equal(t, 1, nothing.Code)
	require.Contains(t, nothing.Err, "there is no resource of a mesh in -; left out")
}

// An import larger than one message is still one revision.
func TestLargeImportIsOneRevision(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	var text strings.Builder
	for i := range 1201 {
		fmt.Fprintf(&text, "---\n%s", clitest.VirtualService("shop", fmt.Sprintf("v%d", i), "a"))
	}
	dry := m.Pipe(text.String(), "import", "-", "--dry-run")
	require.Zero(t, dry.Code, dry.Err)
	require.Contains(t, dry.Out, "virtualservice   1201 ")
	require.Contains(t, dry.Out, "dry run: nothing was changed")
	require.Zero(t, m.Stored())

	r := m.Pipe(text.String(), "import", "-")
	require.Zero(t, r.Code, r.Err)
	require.Contains(t, r.Out, "revision 1\n")
	require.Equal(t, 1201, m.Stored())
	require.Equal(t, 11, strings.Count(r.Err, "\n"), "ten warnings and how many more; a bar is for people at a terminal")
	require.Contains(t, r.Err, "warning: and 1191 more problems")
}

func TestImportPrunes(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	entry := "apiVersion: networking.istio.io/v1\nkind: WorkloadEntry\nmetadata: {name: w, namespace: shop}\nspec: {address: 10.0.0.1}\n"
	m.Apply(clitest.VirtualService("shop", "kept", "a") + clitest.Separator + clitest.VirtualService("shop", "gone", "a") + clitest.Separator + clitest.VirtualService("other", "there", "a") + clitest.Separator + entry)
	prune := func(args ...string) clitest.Result {
		return m.Pipe(clitest.VirtualService("shop", "kept", "a"), append([]string{"import", "-", "--prune", "--prune-namespace", "shop"}, args...)...)
	}
	dry := prune("--dry-run")
	require.Zero(t, dry.Code, dry.Err)
	require.Contains(t, dry.Out, "virtualservice shop/gone deleted")
	require.Contains(t, dry.Out, "workloadentry shop/w deleted")
	require.Equal(t, 4, m.Stored())
	require.Zero(t, prune("--yes", "--prune-kind", "vs").Code)
	require.Equal(t, 3, m.Stored())
	require.Zero(t, prune("--yes").Code)
	require.Equal(t, 2, m.Stored())
	require.Contains(t, m.OK("export"), "name: there")
}

// Whoever imports is told what that overwrites, by name as far as there are few.
func TestImportNamesWhatItOverwrites(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	all := func(host string) string {
		var text strings.Builder
		for i := range 22 {
			fmt.Fprintf(&text, "---\n%s", clitest.VirtualService("shop", fmt.Sprintf("v%02d", i), host))
		}
		return text.String()
	}
	require.NotContains(t, m.Pipe(all("a"), "import", "-").Out, "configured\n")
	said := m.Pipe(all("b"), "import", "-", "--dry-run").Out
	require.Contains(t, said, "virtualservice shop/v00 configured\nvirtualservice shop/v01 configured\n")
	require.Contains(t, said, "virtualservice shop/v19 configured\nand 2 more configured\ndry run: nothing was changed")
	require.NotContains(t, m.Pipe(all("a"), "import", "-").Out, "configured\n", "nothing has changed")
}

func TestExportCanBeImported(t *testing.T) {
	t.Parallel()
	all, err := os.ReadFile("../../../kinds/testdata/every-kind.yaml")
	require.NoError(t, err)
	m := clitest.Start(t)
	explicitZero := strings.Replace(clitest.VirtualService("shop", "zero", "a"), "weight: 100", "weight: 0", 1)
	loaded := m.Pipe(string(all)+clitest.Separator+explicitZero, "import", "-")
	require.Zero(t, loaded.Code, loaded.Err)
	dir := filepath.Join(t.TempDir(), "mesh")
	require.Contains(t, m.OK("export", dir), "resources in "+dir)
	require.FileExists(t, filepath.Join(dir, "shop", "virtualservice", "zero.yaml"))
	stream := m.OK("export")
	require.Equal(t, stream, m.OK("export"), "the order is the same each time")

	for _, source := range []string{dir, "-"} {
		other := clitest.Start(t)
		r := other.Pipe(stream, "import", source)
		require.Zero(t, r.Code, r.Err)
		require.Equal(t, m.Everything(), other.Everything())
		require.Equal(t, stream, other.OK("export"))
	}
	full := m.Run("export", dir)
	require.Equal(t, 1, full.Code)
	require.Contains(t, full.Err, "is not empty")
}

func TestPartialExport(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	m.Apply(clitest.VirtualService("shop", "x", "before") + clitest.Separator + clitest.VirtualService("other", "why", "b"))
	m.Apply(clitest.VirtualService("shop", "x", "after"))
	require.NotContains(t, m.OK("export", "-n", "shop"), "name: why")
	require.Contains(t, m.OK("export"), "name: why")
	require.Empty(t, m.OK("export", "--kind", "dr"))
	require.Contains(t, m.OK("export", "--kind", "vs,dr"), "host: after")
	require.Contains(t, m.OK("export", "--revision", "1"), "host: before")
	require.Equal(t, 1, m.Run("export", "--revision", "99").Code)
	require.Equal(t, 2, m.Run("export", "--kind", "nothing").Code)
}

// What a cluster knows of services is converted, and what the mesh cannot say of it is told. A dry run changes nothing.
func TestImportFromKubernetes(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	const cluster = `apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Service, metadata: {name: reviews, namespace: shop}, spec: {selector: {app: reviews}, sessionAffinity: ClientIP, ports: [{name: http, port: 9080}]}}
- {apiVersion: v1, kind: Pod, metadata: {name: reviews-1, namespace: shop, labels: {app: reviews}}, status: {podIP: 10.0.0.1, phase: Running}}
`
	r := m.Pipe(cluster, "import", "--from", "kubernetes", "-", "--strict")
	require.Equal(t, 3, r.Code, r.Err)
	require.Contains(t, r.Err, "write a DestinationRule with consistentHash.useSourceIp")
	r = m.Pipe(cluster, "import", "--from", "kubernetes", "-", "--dry-run")
	require.Zero(t, r.Code, r.Err)
	var count int
	m.Query("SELECT count(*) FROM mesh.resources", &count)
	require.Zero(t, count)
	r = m.Pipe(cluster, "import", "--from", "kubernetes", "-")
	require.Zero(t, r.Code, r.Err)
	require.Contains(t, r.Out, "serviceentry    1")
	require.Contains(t, r.Out, "workloadentry   1")
	var address string
	m.Query("SELECT address FROM mesh.endpoints WHERE host = 'reviews.shop.svc.cluster.local'", &address)
	require.Equal(t, "10.0.0.1", address)

	r = m.Pipe(cluster, "import", "--from", "nomad", "-")
	require.Equal(t, 2, r.Code)
	require.Contains(t, r.Err, "--from nomad: there is istio, ingress, nginx")
	r = m.Pipe("kind: Deployment\napiVersion: apps/v1\n", "import", "--from", "kubernetes", "-")
	require.Equal(t, 1, r.Code)
	require.Contains(t, r.Err, "not converted: 1 Deployment")
	require.Contains(t, r.Err, "there is nothing that could be converted")
}

// What machines have registered is not in files, and pruning leaves it alone.
func TestPruneLeavesMachinesAlone(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	const group = "{apiVersion: networking.istio.io/v1, kind: WorkloadGroup, metadata: {name: cart, namespace: shop}, spec: {template: {}}}\n"
	m.Apply(group + clitest.Separator + clitest.VirtualService("shop", "gone", "v1"))
	m.Register(m.Store())
	r := m.Pipe(group, "import", "-", "--prune", "--prune-namespace", "shop", "--yes")
	require.Zero(t, r.Code, r.Err)
	require.Contains(t, r.Out, "virtualservice shop/gone deleted\n")
	require.NotContains(t, r.Out, "workloadentry")
	require.NotContains(t, r.Err, "put back")
	var entries int
	m.Query("SELECT count(*) FROM mesh.resources WHERE kind = 'WorkloadEntry'", &entries)
	require.Equal(t, 2, entries)
}
