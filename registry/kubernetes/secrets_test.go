package kubernetes_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/gate"
	"github.com/pgmesh/pgmesh/internal/testbench/kubetest"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
	"github.com/pgmesh/pgmesh/registry"
)

// vault applies a Secret. Without an account it has no label, and is for nobody.
func vault(c *kubetest.Cluster, namespace, name, account, value string) {
	metadata := kubetest.Object{"name": name, "namespace": namespace}
	if account != "" {
		metadata["labels"] = kubetest.Object{"mesh.pgmesh.io/service-account": account}
		metadata["annotations"] = kubetest.Object{"mesh.pgmesh.io/service-accounts": "second, third"}
	}
	c.Apply(vaultPath(namespace, name), kubetest.Object{"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": kubetest.Object{"value": value}})
}

func vaultPath(namespace, name string) string {
	return "/api/v1/namespaces/" + namespace + "/secrets/" + name
}

// lent waits until a namespace has given these Secrets, by name with what is in them.
func (w *watcher) lent(t *testing.T, namespace string, want map[string]string) {
	t.Helper()
	w.Until(t, "its Secrets are others", func() bool {
		given, told := w.Lent[namespace]
		if !told || len(given) != len(want) {
			return false
		}
		for name, value := range want {
			if s, there := given[name]; !there || valueOf(s) != value {
				return false
			}
		}
		return true
	})
}

func valueOf(s registry.Secret) string {
	return string(s.Spec.Message().(*mcpv1.Secret).GetData()["value"])
}

func TestSecretsForGateways(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.Namespace("edge")
	vault(c, shop, "gate", "first", "one")
	vault(c, shop, "hidden", "", "x")
	vault(c, "edge", "gate", "first", "two")
	way := gate.Open(t, c.Address)
	w := watch(t, c.Kubeconfig(way.Address(), c.Admin()), "namespaces=shop&secrets=shop")
	w.lent(t, shop, map[string]string{"gate": "one"})
	w.UntilThere(t, webKey)
	w.Lock()
	s := w.Lent[shop]["gate"]
	spec := s.Spec.Message().(*mcpv1.Secret)
	require.Equal(t, []string{"first", "second", "third"}, spec.GetServiceAccounts())
	require.Equal(t, "Opaque", spec.GetType())
	require.Equal(t, "Secret shop/gate", s.Key().String())
	require.NotContains(t, w.Lent, "edge", "it is not asked for")
	before := s.Version
	w.Unlock()

	vault(c, shop, "gate", "first", "three")
	w.lent(t, shop, map[string]string{"gate": "three"})
	w.Lock()
	require.NotEqual(t, before, w.Lent[shop]["gate"].Version)
	w.Unlock()
	vault(c, shop, "hidden", "first", "four")
	w.lent(t, shop, map[string]string{"gate": "three", "hidden": "four"})
	way.Shut()
	c.Delete(vaultPath(shop, "gate"))
	w.UntilAway(t, "", webKey)
	w.lent(t, shop, map[string]string{"gate": "three", "hidden": "four"})
	way.Unshut()
	w.lent(t, shop, map[string]string{"hidden": "four"})
	vault(c, shop, "hidden", "", "four")
	w.lent(t, shop, map[string]string{})
}

// Whoever may not read the Secrets of one namespace reads the rest.
func TestSecretsThatMayNotBeRead(t *testing.T) {
	t.Parallel()
	c := start(t)
	c.Namespace("edge")
	vault(c, shop, "gate", "first", "one")
	vault(c, "edge", "gate", "first", "two")
	c.Grant("reader", "reader", kubetest.Reads("", "services", "pods", "nodes"), kubetest.Reads("discovery.k8s.io", "endpointslices"))
	c.GrantIn("edge", "secrets", "reader", kubetest.Reads("", "secrets"))
	w := watch(t, c.Kubeconfig(c.Address, c.User("reader")), "config=false&secrets=shop,edge")
	w.UntilBad(t, "the secrets of shop", "forbidden")
	w.lent(t, "edge", map[string]string{"gate": "two"})
	w.Lock()
	require.NotNil(t, w.All[webKey])
	require.NotContains(t, w.Lent, shop)
	w.Unlock()
	c.GrantIn(shop, "secrets", "reader", kubetest.Reads("", "secrets"))
	w.lent(t, shop, map[string]string{"gate": "one"})
	w.UntilThere(t, webKey, "ServiceEntry default/kubernetes.kubernetes")
	require.Empty(t, w.Wrong)
}
