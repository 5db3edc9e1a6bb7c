package kubernetes_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	istio "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/internal/testbench/kubetest"
	"github.com/pgmesh/pgmesh/kinds"
)

const (
	networkingPath = "/apis/networking.istio.io/v1/namespaces/shop/"
	gatewayPath    = "/apis/gateway.networking.k8s.io/v1/"
)

func virtualService(name, gateway string) kubetest.Object {
	return kubetest.Object{
		"apiVersion": "networking.istio.io/v1", "kind": "VirtualService",
		"metadata": kubetest.Object{"name": name, "labels": kubetest.Object{"team": "a"}, "annotations": kubetest.Object{"note": "ours"}},
		"spec": kubetest.Object{
			"hosts": []string{"web.example.com"}, "gateways": []string{gateway},
			"http": []kubetest.Object{{"timeout": "1m30s", "route": []kubetest.Object{{"destination": kubetest.Object{"host": "web", "port": kubetest.Object{"number": 80}}}}}},
		},
	}
}

// Resources of Istio's kinds keep their names, by which they refer to each other. Kinds may come and
// go while the cluster is followed.
func TestConfiguration(t *testing.T) {
	t.Parallel()
	c := kubetest.Start(t)
	c.Namespace(shop)
	w := watch(t, c.Kubeconfig(c.Address, c.Admin()), "services=false")
	w.UntilThere(t)

	c.InstallIstio()
	c.Apply(networkingPath+"virtualservices/web", virtualService("web", "edge/gate"))
	w.UntilThere(t, "VirtualService shop/web")
	w.Lock()
	r := w.All["VirtualService shop/web"]
	require.Equal(t, map[string]string{"team": "a"}, r.Labels)
	require.Equal(t, map[string]string{"note": "ours", kinds.OriginEntryAnnotation: "virtualservices.networking.istio.io/shop/web"}, r.Annotations)
	spec := r.Spec.Message().(*istio.VirtualService)
	require.Equal(t, []string{"edge/gate"}, spec.GetGateways())
	require.EqualValues(t, 90, spec.GetHttp()[0].GetTimeout().GetSeconds())
	require.False(t, r.CreateTime.IsZero())
	w.Unlock()

	c.Apply(networkingPath+"virtualservices/web", virtualService("web", "edge/other"))
	w.Until(t, "it has changed", func() bool {
		return w.All["VirtualService shop/web"].Spec.Message().(*istio.VirtualService).GetGateways()[0] == "edge/other"
	})
	c.Apply("/apis/security.istio.io/v1/namespaces/shop/peerauthentications/strict", kubetest.Object{
		"apiVersion": "security.istio.io/v1", "kind": "PeerAuthentication", "metadata": kubetest.Object{"name": "strict"},
		"spec": kubetest.Object{"mtls": kubetest.Object{"mode": "STRICT"}},
	})
	c.InstallGatewayAPI()
	c.Apply(gatewayPath+"gatewayclasses/edge", kubetest.Object{
		"apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": kubetest.Object{"name": "edge"},
		"spec": kubetest.Object{"controllerName": "istio.io/gateway-controller"},
	})
	c.Apply(gatewayPath+"namespaces/shop/httproutes/web", kubetest.Object{
		"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": kubetest.Object{"name": "web"},
		"spec": kubetest.Object{
			"parentRefs": []kubetest.Object{{"name": "gate"}}, "hostnames": []string{"web.example.com"},
			"rules": []kubetest.Object{{"backendRefs": []kubetest.Object{{"name": "web", "port": 80}}}},
		},
	})
	w.UntilThere(t, "VirtualService shop/web", "PeerAuthentication shop/strict", "GatewayClass edge", "HTTPRoute shop/web")

	c.Delete("/apis/security.istio.io/v1/namespaces/shop/peerauthentications/strict")
	w.UntilThere(t, "VirtualService shop/web", "GatewayClass edge", "HTTPRoute shop/web")
	c.Delete(kubetest.DefinitionPath("virtualservices.networking.istio.io"))
	w.UntilThere(t, "GatewayClass edge", "HTTPRoute shop/web")
	require.Empty(t, w.Wrong)
}

// What a kind of ours does not have keeps the last good state.
func TestABadResourceCostsOnlyItself(t *testing.T) {
	t.Parallel()
	c := kubetest.Start(t)
	c.Namespace(shop)
	c.Apply(kubetest.DefinitionPath("virtualservices.networking.istio.io"), loose("virtualservices", "VirtualService"))
	c.AwaitDefinition("virtualservices.networking.istio.io")
	c.Apply(networkingPath+"virtualservices/web", virtualService("web", "mesh"))
	c.Apply(networkingPath+"virtualservices/other", virtualService("other", "mesh"))
	w := watch(t, c.Kubeconfig(c.Address, c.Admin()), "services=false")
	both := []string{"VirtualService shop/web", "VirtualService shop/other"}
	w.UntilThere(t, both...)

	wrong := virtualService("web", "mesh")
	wrong["spec"].(kubetest.Object)["hosts"] = 5
	c.Apply(networkingPath+"virtualservices/web", wrong)
	const entry = "virtualservices.networking.istio.io/shop/web"
	w.Until(t, "it is told to be bad", func() bool { return w.Wrong[entry] != "" })
	w.UntilThere(t, both...)
	c.Apply(networkingPath+"virtualservices/web", virtualService("web", "edge/gate"))
	w.Until(t, "it is good again", func() bool { return len(w.Wrong) == 0 })
	c.Apply(networkingPath+"virtualservices/web", wrong)
	w.Until(t, "it is bad again", func() bool { return w.Wrong[entry] != "" })
	c.Delete(networkingPath + "virtualservices/web")
	w.UntilThere(t, both[1])
	w.Until(t, "it is gone", func() bool { return len(w.Wrong) == 0 })
}

// loose is a definition of a kind that takes anything.
func loose(plural, kind string) kubetest.Object {
	return kubetest.Object{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": kubetest.Object{"name": plural + ".networking.istio.io"},
		"spec": kubetest.Object{
			"group": "networking.istio.io", "scope": "Namespaced", "names": kubetest.Object{"plural": plural, "kind": kind},
			"versions": []kubetest.Object{{
				"name": "v1", "served": true, "storage": true,
				"schema": kubetest.Object{"openAPIV3Schema": kubetest.Object{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}
}

// How a machine is that Istio's agent probes stands in the status of its WorkloadEntry.
func TestTheHealthOfMachines(t *testing.T) {
	t.Parallel()
	c := kubetest.Start(t)
	c.Namespace(shop)
	c.InstallIstio()
	const path = networkingPath + "workloadentries/"
	entry := func(name string, annotations map[string]string) {
		c.Apply(path+name, kubetest.Object{
			"apiVersion": "networking.istio.io/v1", "kind": "WorkloadEntry", "metadata": kubetest.Object{"name": name, "annotations": annotations},
			"spec": kubetest.Object{"address": "10.1.0.1"},
		})
	}
	says := func(name, status, message string) {
		c.ApplyStatus(path+name, kubetest.Object{
			"apiVersion": "networking.istio.io/v1", "kind": "WorkloadEntry", "metadata": kubetest.Object{"name": name},
			"status": kubetest.Object{"conditions": []kubetest.Object{{"type": "Healthy", "status": status, "message": message}}},
		})
	}
	entry("api-1", map[string]string{"proxy.istio.io/health-checks-enabled": "true"})
	entry("api-2", nil)
	says("api-2", "False", "nobody looks")
	w := watch(t, c.Kubeconfig(c.Address, c.Admin()), "services=false&namespaces=shop")
	w.UntilThere(t, "WorkloadEntry shop/api-1", "WorkloadEntry shop/api-2")
	health := func(name string) string { return w.All["WorkloadEntry shop/"+name].Annotations[kinds.HealthAnnotation] }
	w.Until(t, "nobody has looked yet", func() bool { return health("api-1") == "unknown" && health("api-2") == "" })
	says("api-1", "False", "GET /: 503")
	w.Until(t, "it is unwell", func() bool { return health("api-1") == "unhealthy: GET /: 503" })
	says("api-1", "True", "")
	w.Until(t, "it is well", func() bool { return health("api-1") == "" })
}
