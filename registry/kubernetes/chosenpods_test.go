package kubernetes_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/kubetest"
	"github.com/pgmesh/pgmesh/kinds"
)

// running says of a Pod that it runs at an address.
func running(c *kubetest.Cluster, name, address, ready string) {
	c.ApplyStatus(kubetest.PodPath(shop, name), kubetest.Object{
		"apiVersion": "v1", "kind": "Pod", "metadata": kubetest.Object{"name": name},
		"status": kubetest.Object{
			"phase": "Running", "podIP": address, "podIPs": []kubetest.Object{{"ip": address}},
			"conditions": []kubetest.Object{{"type": "Ready", "status": ready}},
		},
	})
}

// A ServiceEntry chooses Pods of its namespace, and goes on to choose WorkloadEntries.
func TestAServiceEntryChoosesPods(t *testing.T) {
	t.Parallel()
	c := kubetest.Start(t)
	c.InstallIstio()
	c.Namespace(shop)
	c.ApplyNode("one", "eu", "eu-a")
	pod(c, "web-1", "one", nil)
	pod(c, "web-2", "one", map[string]string{"app": "other"})
	running(c, "web-1", "10.0.0.1", "True")
	running(c, "web-2", "10.0.0.2", "False")
	const key = "ServiceEntry shop/chosen"
	c.Apply("/apis/networking.istio.io/v1/namespaces/"+shop+"/serviceentries/chosen", kubetest.Object{
		"apiVersion": "networking.istio.io/v1", "kind": "ServiceEntry", "metadata": kubetest.Object{"name": "chosen"},
		"spec": kubetest.Object{
			"hosts": []string{"chosen.example.com"}, "location": "MESH_INTERNAL", "resolution": "STATIC",
			"ports":            []kubetest.Object{{"number": 80, "name": "http", "protocol": "HTTP", "targetPort": 8080}},
			"workloadSelector": kubetest.Object{"labels": kubetest.Object{"app": "web"}},
		},
	})
	w := watch(t, c.Kubeconfig(c.Address, c.Admin()), "namespaces=shop&network=prod")
	addresses := func() (out []string) {
		for _, e := range w.entry("shop/chosen").GetEndpoints() {
			out = append(out, e.GetAddress()+e.GetLabels()[kinds.HealthLabel])
		}
		return out
	}
	w.Until(t, "the Pod is chosen", func() bool { return len(addresses()) == 1 })
	w.Lock()
	entry := w.entry("shop/chosen")
	require.Nil(t, entry.GetWorkloadSelector())
	require.Equal(t, "app=web", w.All[key].Annotations[kinds.SelectorAnnotation])
	e := entry.GetEndpoints()[0]
	require.Equal(t, "10.0.0.1 eu/eu-a prod buyer", e.GetAddress()+" "+e.GetLocality()+" "+e.GetNetwork()+" "+e.GetServiceAccount())
	w.Unlock()

	pod(c, "web-2", "one", nil)
	w.Until(t, "another Pod is chosen", func() bool { a := addresses(); return len(a) == 2 && a[1] == "10.0.0.2unhealthy" })
	running(c, "web-2", "10.0.0.2", "True")
	w.Until(t, "it is ready", func() bool { a := addresses(); return len(a) == 2 && a[1] == "10.0.0.2" })
	c.Delete(kubetest.PodPath(shop, "web-1"))
	c.Delete(kubetest.PodPath(shop, "web-2"))
	w.Until(t, "it chooses WorkloadEntries alone", func() bool { return len(w.entry("shop/chosen").GetWorkloadSelector().GetLabels()) == 1 })
}
