package kubernetes_test

import (
	"testing"

	"github.com/pgmesh/pgmesh/internal/testbench/kubetest"
	"github.com/pgmesh/pgmesh/kinds"
)

// A route has the labels of its namespace, which may change, and nobody can give it others.
func TestRoutesHaveTheLabelsOfTheirNamespace(t *testing.T) {
	t.Parallel()
	c := kubetest.Start(t)
	c.InstallGatewayAPI()
	label := func(labels kubetest.Object) {
		c.Apply("/api/v1/namespaces/shop", kubetest.Object{
			"apiVersion": "v1", "kind": "Namespace", "metadata": kubetest.Object{"name": "shop", "labels": labels},
		})
	}
	label(kubetest.Object{"team": "shop", "env": "prod"})
	c.Apply(gatewayPath+"namespaces/shop/httproutes/web", kubetest.Object{
		"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
		"metadata": kubetest.Object{"name": "web", "annotations": kubetest.Object{kinds.OriginNamespaceAnnotation: "team=bank"}},
		"spec":     kubetest.Object{"parentRefs": []kubetest.Object{{"name": "gate"}}},
	})
	w := watch(t, c.Kubeconfig(c.Address, c.Admin()), "services=false")
	w.UntilThere(t, "HTTPRoute shop/web")
	says := func() string { return w.All["HTTPRoute shop/web"].Annotations[kinds.OriginNamespaceAnnotation] }
	w.Until(t, "it has the labels", func() bool { return says() == "env=prod,team=shop" })
	label(kubetest.Object{"team": "cart"})
	w.Until(t, "they have changed", func() bool { return says() == "team=cart" })
	label(kubetest.Object{})
	w.Until(t, "there are none", func() bool { return says() == "" })
}
