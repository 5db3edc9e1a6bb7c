package kubernetes_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/pgmesh/pgmesh/internal/portprotocol"
	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/internal/testbench/kubetest"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
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
	c.InstallInference()
	c.Apply(networkingPath+"virtualservices/web", virtualService("web", "mesh"))
	blocks := fenced.FindAllStringSubmatch(readPage(t), -1)
	require.Len(t, blocks, 6)

	paths := map[string]string{
		"Namespace": "/api/v1/namespaces/", "ServiceAccount": "/api/v1/namespaces/pgmesh/serviceaccounts/",
		"Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/edge/roles/", "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/edge/rolebindings/",
		"Secret": "/api/v1/namespaces/edge/secrets/", "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles/", "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/",
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
	require.Equal(t, 4, apply(blocks[0][1]))

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
	c.Apply(poolPath, poolOf("web"))
	statuses := write(t, c, config)
	statuses.UntilThere(t, "VirtualService shop/web", "HTTPRoute shop/web", poolKey)
	statuses.tells(programmed("True"), "web")
	statuses.shows("web", "Accepted=True:Accepted@1 Programmed=True:Programmed@1")
	statuses.becomes("HTTPRoute shop/web", atParents(said("Accepted True Accepted"), "edge"))
	statuses.becomes(poolKey, atParents(said("Accepted True Accepted"), "edge"))
	for _, path := range []string{routePath, poolPath} {
		statuses.says(path, "\nedge by pgmesh.io/gateway-controller: Accepted=True:Accepted@1")
	}
	require.Zero(t, statuses.registry.Writes().Failed)

	c.Namespace("edge")
	pair := c.Authority.Issue(nil)
	require.Equal(t, 1, apply(regexp.MustCompile(`data: \{.*\}`).ReplaceAllString(blocks[3][1], fmt.Sprintf("data: {tls.crt: %s, tls.key: %s}",
		base64.StdEncoding.EncodeToString(pair.Cert), base64.StdEncoding.EncodeToString(pair.Key)))))
	secrets := watch(t, config, "services=false&config=false&secrets=edge")
	secrets.UntilAway(t, "secrets")
	require.Equal(t, 2, apply(blocks[4][1]))
	secrets.Until(t, "the Secret is there", func() bool { return len(secrets.Lent["edge"]) == 1 })
	spec := secrets.Lent["edge"]["shop"].Spec.Message().(*mcpv1.Secret)
	require.Equal(t, []string{"shop-gateway"}, spec.GetServiceAccounts())
	require.Equal(t, pair.Key, spec.GetData()["tls.key"])
	for path, status := range map[string]int{"/api/v1/secrets": 403, "/api/v1/namespaces/edge/secrets": 200, "/api/v1/namespaces/edge/secrets/shop": 403} {
		require.Equal(t, status, c.StatusAs(c.Token("pgmesh", "pgmesh"), path), path)
	}

	configMap(c, "ca", kubetest.Object{"ca.crt": string(c.Authority.PEM)})
	c.Apply(policyPath, policy("ca"))
	w.Until(t, "the ConfigMap is told as forbidden", func() bool { return w.Wrong["configmaps"] != "" })
	paths["Role"], paths["RoleBinding"] = strings.ReplaceAll(paths["Role"], "edge", "shop"), strings.ReplaceAll(paths["RoleBinding"], "edge", "shop")
	require.Equal(t, 2, apply(blocks[5][1]))
	w.Until(t, "the policy has its authorities", func() bool { return w.All[policyKey].Authorities()["shop/ca"] == string(c.Authority.PEM) })
	w.Until(t, "nothing is told as forbidden any more", func() bool { return w.Wrong["configmaps"] == "" })
	require.Equal(t, 403, c.StatusAs(c.Token("pgmesh", "pgmesh"), "/api/v1/namespaces/shop/configmaps"))
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
	for _, protocol := range portprotocol.Words() {
		require.Contains(t, text, fmt.Sprintf("`%s`", protocol))
	}
}
