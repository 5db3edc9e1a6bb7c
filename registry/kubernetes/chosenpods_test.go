package kubernetes_test

import (
	"strings"
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

const chosenPath = networkingPath + "serviceentries/chosen"

// chosenEntry is a ServiceEntry that chooses Pods.
func chosenEntry() kubetest.Object {
	return kubetest.Object{
		"apiVersion": "networking.istio.io/v1", "kind": "ServiceEntry", "metadata": kubetest.Object{"name": "chosen"},
		"spec": kubetest.Object{
			"hosts": []string{"chosen.example.com"}, "location": "MESH_INTERNAL", "resolution": "STATIC",
			"ports":            []kubetest.Object{{"number": 80, "name": "http", "protocol": "HTTP", "targetPort": 8080}},
			"workloadSelector": kubetest.Object{"labels": kubetest.Object{"app": "web"}},
		},
	}
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
	c.Apply(chosenPath, chosenEntry())
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
	require.Equal(t, "app=web", w.All["ServiceEntry shop/chosen"].Annotations[kinds.SelectorAnnotation])
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

const (
	poolKey  = "InferencePool shop/llama"
	poolPath = "/apis/inference.networking.k8s.io/v1/namespaces/" + shop + "/inferencepools/llama"
)

// poolOf is an InferencePool of the Pods of an app. Somebody claims that there is another Pod.
func poolOf(app string) kubetest.Object {
	return kubetest.Object{
		"apiVersion": "inference.networking.k8s.io/v1", "kind": "InferencePool",
		"metadata": kubetest.Object{"name": "llama", "annotations": kubetest.Object{kinds.OriginEndpointsAnnotation: `[{"address": "10.9.9.9"}]`, "note": "kept"}},
		"spec": kubetest.Object{
			"selector": kubetest.Object{"matchLabels": kubetest.Object{"app": app}}, "targetPorts": []kubetest.Object{{"number": 8000}, {"number": 8001}},
			"endpointPickerRef": kubetest.Object{"name": "picker", "port": kubetest.Object{"number": 9002}},
		},
	}
}

// endpoints are the Pods of the pool, with where they are and how.
func (w *watcher) endpoints() string {
	r := w.All[poolKey]
	if r == nil {
		return "no pool"
	}
	var all []string
	for _, e := range r.Endpoints() {
		all = append(all, strings.Join(strings.Fields(e.GetAddress()+" "+e.GetLocality()+" "+e.GetLabels()[kinds.HealthLabel]), " "))
	}
	return strings.Join(all, ", ")
}

// An InferencePool has the Pods that it chooses of its namespace as endpoints, however they come and go.
func TestAnInferencePoolChoosesPods(t *testing.T) {
	t.Parallel()
	c := kubetest.Start(t)
	c.InstallInference()
	c.Namespace(shop)
	c.Namespace("other")
	c.ApplyNode("one", "eu", "eu-a")
	pod(c, "web-1", "one", nil)
	pod(c, "web-2", "one", map[string]string{"app": "other"})
	c.ApplyPod(kubetest.Pod{Namespace: "other", Name: "web-1", Node: "one", Labels: map[string]string{"app": "web"}})
	running(c, "web-1", "10.0.0.1", "True")
	running(c, "web-2", "10.0.0.2", "False")
	c.Apply(poolPath, poolOf("web"))
	w := watch(t, c.Kubeconfig(c.Address, c.Admin()), "network=prod")
	lists := func(why, want string) {
		t.Helper()
		w.Until(t, why, func() bool { return w.endpoints() == want })
	}
	lists("the Pod is chosen", "10.0.0.1 eu/eu-a")
	w.Lock()
	e := w.All[poolKey].Endpoints()[0]
	require.Equal(t, "prod buyer web", e.GetNetwork()+" "+e.GetServiceAccount()+" "+e.GetLabels()["app"])
	require.Equal(t, "kept", w.All[poolKey].Annotations["note"])
	require.Empty(t, w.Wrong)
	w.Unlock()

	pod(c, "web-2", "one", nil)
	lists("another is chosen", "10.0.0.1 eu/eu-a, 10.0.0.2 eu/eu-a unhealthy")
	running(c, "web-2", "10.0.0.2", "True")
	lists("it is ready", "10.0.0.1 eu/eu-a, 10.0.0.2 eu/eu-a")
	running(c, "web-1", "10.0.0.1", "False")
	lists("the first is not ready any more", "10.0.0.1 eu/eu-a unhealthy, 10.0.0.2 eu/eu-a")
	c.ApplyNode("one", "eu", "eu-b")
	lists("their node has moved", "10.0.0.1 eu/eu-b unhealthy, 10.0.0.2 eu/eu-b")
	c.Delete(kubetest.PodPath(shop, "web-1"))
	lists("it is gone", "10.0.0.2 eu/eu-b")
	c.Apply(poolPath, poolOf("none"))
	lists("the pool chooses others", "")
	c.Apply(poolPath, poolOf("web"))
	lists("and those again", "10.0.0.2 eu/eu-b")
	c.Delete(kubetest.PodPath(shop, "web-2"))
	lists("all are gone", "")
	c.Delete(poolPath)
	lists("and so is the pool", "no pool")
}

// What became of a resource that lists Pods is in its status, whatever Pods come: that of a pool has an entry
// for each Gateway, beside those of other controllers.
func TestStatusesOfWhatListsPods(t *testing.T) {
	t.Parallel()
	c := begin(t)
	c.InstallInference()
	pod(c, "web-1", "", nil)
	running(c, "web-1", "10.0.0.1", "False")
	c.Apply(poolPath, poolOf("web"))
	c.Apply(chosenPath, chosenEntry())
	c.ApplyStatus(poolPath, kubetest.Object{"apiVersion": "inference.networking.k8s.io/v1", "kind": "InferencePool", "status": kubetest.Object{"parents": []kubetest.Object{{
		"parentRef": kubetest.Object{"name": "edge"}, "controllerName": "example.com/other",
		"conditions": []kubetest.Object{{"type": "Accepted", "status": "False", "reason": "Theirs", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}},
	}}}})
	w := writeWith(t, c, c.Kubeconfig(c.Address, c.Admin()), "namespaces=shop")
	w.Until(t, "the pool has its Pod", func() bool { return w.endpoints() == "10.0.0.1 unhealthy" })
	w.Until(t, "so has the ServiceEntry", func() bool { return len(w.entry("shop/chosen").GetEndpoints()) == 1 })
	const theirs, ours = "\nedge by example.com/other: Accepted=False:Theirs@0", "\nedge by pgmesh.io/gateway-controller: Accepted=True:Accepted@1 ResolvedRefs="
	w.becomes(poolKey, atParents(said("Accepted True Accepted", "ResolvedRefs False InvalidExtensionRef"), "edge", "inner"))
	w.says(poolPath, theirs+ours+"False:InvalidExtensionRef@1"+strings.Replace(ours, "edge", "inner", 1)+"False:InvalidExtensionRef@1")
	w.becomes("ServiceEntry shop/chosen", "null")
	w.says(chosenPath, "Accepted=True:Accepted@1 Programmed=True:Programmed@1")
	w.wrote(2)

	// It is another state of the same object: what was said of the one before is not said of it.
	running(c, "web-1", "10.0.0.1", "True")
	w.Until(t, "its Pod is ready", func() bool { return w.endpoints() == "10.0.0.1" })
	w.wrote(2)
	w.becomes(poolKey, atParents(said("Accepted True Accepted", "ResolvedRefs True ResolvedRefs"), "edge"))
	w.says(poolPath, theirs+ours+"True:ResolvedRefs@1")
	c.Delete(kubetest.PodPath(shop, "web-1"))
	w.Until(t, "its Pod is gone", func() bool { return w.endpoints() == "" })
	w.becomes(poolKey, "{}")
	w.says(poolPath, theirs)
	w.wrote(4)
	require.Zero(t, w.registry.Writes().Failed)
}
