package kubernetes_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/internal/testbench/gate"
	"github.com/pgmesh/pgmesh/internal/testbench/kubetest"
	"github.com/pgmesh/pgmesh/kinds"
)

const (
	policyPath = gatewayPath + "namespaces/shop/backendtlspolicies/web"
	policyKey  = "BackendTLSPolicy shop/web"
	mapsPath   = "/api/v1/namespaces/shop/configmaps/"
)

// policy is a policy that names a ConfigMap. Its annotation is not to count.
func policy(name string) kubetest.Object {
	return kubetest.Object{
		"apiVersion": "gateway.networking.k8s.io/v1", "kind": "BackendTLSPolicy",
		"metadata": kubetest.Object{"name": "web", "namespace": "shop", "annotations": kubetest.Object{kinds.OriginAuthoritiesAnnotation: `{"shop/stolen": "x"}`}},
		"spec": kubetest.Object{
			"targetRefs": []kubetest.Object{{"group": "", "kind": "Service", "name": "web"}},
			"validation": kubetest.Object{"hostname": "web.example.com", "caCertificateRefs": []kubetest.Object{{"group": "", "kind": "ConfigMap", "name": name}}},
		},
	}
}

// configMap applies a ConfigMap.
func configMap(c *kubetest.Cluster, name string, content kubetest.Object) {
	c.Apply(mapsPath+name, kubetest.Object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": kubetest.Object{"name": name, "namespace": "shop"}, "data": content})
}

// A policy has the authorities of the ConfigMap that it names, and keeps them while the cluster is away.
func TestPoliciesHaveTheAuthoritiesThatTheyName(t *testing.T) {
	t.Parallel()
	c := kubetest.Start(t)
	c.InstallGatewayAPI()
	c.Namespace("shop")
	first, second := string(certtest.NewAuthority(t).PEM), string(certtest.NewAuthority(t).PEM)
	configMap(c, "ca", kubetest.Object{"ca.crt": first, "more": "unread"})
	configMap(c, "other", kubetest.Object{"ca.crt": second})
	c.Apply(policyPath, policy("ca"))
	way := gate.Open(t, c.Address)
	w := watch(t, c.Kubeconfig(way.Address(), c.Admin()), "services=false")
	says := func(want map[string]string) {
		t.Helper()
		w.Until(t, "it has other authorities", func() bool {
			r := w.All[policyKey]
			return r != nil && kinds.WrittenAuthorities(r.Authorities()) == kinds.WrittenAuthorities(want)
		})
	}
	says(map[string]string{"shop/ca": first})
	configMap(c, "ca", kubetest.Object{"ca.crt": second})
	says(map[string]string{"shop/ca": second})
	configMap(c, "ca", kubetest.Object{"ca.crt": ""})
	says(nil)
	w.Until(t, "it is not told", func() bool { return w.Wrong["configmaps/shop/ca"] != "" })
	configMap(c, "ca", kubetest.Object{"ca.crt": first})
	says(map[string]string{"shop/ca": first})
	w.Until(t, "it is still told", func() bool { return w.Wrong["configmaps/shop/ca"] == "" })
	c.Apply(policyPath, policy("other"))
	says(map[string]string{"shop/other": second})

	way.Shut()
	c.Delete(mapsPath + "other")
	w.UntilAway(t, "", policyKey)
	says(map[string]string{"shop/other": second})
	way.Unshut()
	says(nil)
}

// An account that may read one ConfigMap by its name reads that one. Another is told as forbidden, and
// all else goes on.
func TestOneConfigMapMayBeGranted(t *testing.T) {
	t.Parallel()
	c := kubetest.Start(t)
	c.InstallGatewayAPI()
	c.Namespace("shop")
	first := string(certtest.NewAuthority(t).PEM)
	configMap(c, "ca", kubetest.Object{"ca.crt": first})
	configMap(c, "other", kubetest.Object{"ca.crt": first})
	c.Apply(policyPath, policy("ca"))
	c.Apply(strings.ReplaceAll(policyPath, "/web", "/more"), func() kubetest.Object {
		more := policy("other")
		more["metadata"] = kubetest.Object{"name": "more", "namespace": "shop"}
		return more
	}())
	c.Grant("reader", "reader", kubetest.Reads("gateway.networking.k8s.io", "*"), kubetest.Reads("", "namespaces"))
	one := kubetest.Reads("", "configmaps")
	one["resourceNames"] = []string{"ca"}
	c.GrantIn("shop", "authorities", "reader", one)
	w := watch(t, c.Kubeconfig(c.Address, c.User("reader")), "services=false")
	w.Until(t, "one has its authorities", func() bool {
		r := w.All[policyKey]
		return r != nil && r.Authorities()["shop/ca"] == first
	})
	w.Until(t, "the other is told", func() bool {
		return w.Wrong["configmaps"] != "" && w.All["BackendTLSPolicy shop/more"] != nil
	})
	w.Lock()
	require.Empty(t, w.All["BackendTLSPolicy shop/more"].Authorities())
	w.Unlock()
}
