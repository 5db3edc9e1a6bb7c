package kubernetes_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/internal/testbench/kubetest"
	"github.com/pgmesh/pgmesh/registry/kubernetes"
)

const page = "../../docs/kubernetes.md"

func readPage(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	return string(text)
}

var fenced = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

// What docs/kubernetes.md has people apply and write is enough to read a cluster, and no more.
func TestThePageOfKubernetes(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.InstallIstio()
	c.InstallGatewayAPI()
	c.Apply(networkingPath+"virtualservices/web", virtualService("web", "mesh"))
	blocks := fenced.FindAllStringSubmatch(readPage(t), -1)
	require.Len(t, blocks, 3)

	paths := map[string]string{
		"Namespace": "/api/v1/namespaces/", "ServiceAccount": "/api/v1/namespaces/pgmesh/serviceaccounts/",
		"ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles/", "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/",
	}
	apply := func(block string) (kinds int) {
		for document := range strings.SplitSeq(block, "---\n") {
			var o kubetest.Object
			require.NoError(t, yaml.Unmarshal([]byte(document), &o))
			path := paths[o["kind"].(string)]
			require.NotEmpty(t, path, o["kind"])
			c.Apply(path+o["metadata"].(kubetest.Object)["name"].(string), o)
			kinds++
		}
		return kinds
	}
	require.Equal(t, len(paths), apply(blocks[0][1]))

	folder := t.TempDir()
	config := filepath.Join(folder, "kubeconfig")
	certtest.WriteFile(t, config, []byte(strings.Replace(blocks[1][1], "10.0.0.1:6443", c.Address, 1)))
	certtest.WriteFile(t, filepath.Join(folder, "ca.pem"), c.Authority.PEM)
	certtest.WriteFile(t, filepath.Join(folder, "token"), []byte(c.Token("pgmesh", "pgmesh")))
	w := watch(t, config, "")
	w.UntilThere(t, webKey, "ServiceEntry default/kubernetes.kubernetes", "VirtualService shop/web")
	require.Empty(t, w.Wrong)

	for path, status := range map[string]int{"/api/v1/secrets": 403, "/api/v1/configmaps": 403, "/api/v1/namespaces/shop/services": 200} {
		require.Equal(t, status, c.StatusAs(c.Token("pgmesh", "pgmesh"), path), path)
	}

	require.Equal(t, 2, apply(blocks[2][1]))
	c.Apply(routePath, routeTo("edge"))
	statuses := write(t, c, config)
	statuses.UntilThere(t, "VirtualService shop/web", "HTTPRoute shop/web")
	statuses.tells(programmed("True"), "web")
	statuses.shows("web", "Accepted=True:Accepted@1 Programmed=True:Programmed@1")
	statuses.becomes("HTTPRoute shop/web", atParents(said("Accepted True Accepted"), "edge"))
	statuses.says(routePath, "\nedge by pgmesh.io/gateway-controller: Accepted=True:Accepted@1")
	require.Zero(t, statuses.registry.Writes().Failed)
}

var parameterRow = regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|")

// The page has each parameter of the URL, and no other.
func TestThePageHasAllParameters(t *testing.T) {
	t.Parallel()
	_, rest, found := strings.Cut(readPage(t), "## The URL\n")
	require.True(t, found)
	table, _, _ := strings.Cut(rest, "\n## ")
	var rows []string
	for _, row := range parameterRow.FindAllStringSubmatch(table, -1) {
		rows = append(rows, row[1])
	}
	require.ElementsMatch(t, kubernetes.Parameters(), rows)
}

// The page names each group of kinds that is asked for, and the protocols.
func TestThePageHasAllGroupsAndProtocols(t *testing.T) {
	t.Parallel()
	text := readPage(t)
	for _, group := range kubernetes.Groups() {
		require.Contains(t, text, "\n  - "+group+"\n")
	}
	for _, protocol := range slices.Sorted(maps.Keys(kubernetes.Protocols())) {
		require.Contains(t, text, fmt.Sprintf("`%s`", protocol))
	}
}
