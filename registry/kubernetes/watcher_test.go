package kubernetes_test

import (
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/registry/registrytest"
)

// watcher keeps what a registry tells, by kind and name: "ServiceEntry shop/kubernetes.web".
type watcher struct{ *registrytest.Watcher }

func watch(t *testing.T, kubeconfig, parameters string) *watcher {
	t.Helper()
	return &watcher{registrytest.Watch(t, open(t, kubeconfig, "timeout=500ms&"+parameters), func(k kinds.Key) string { return k.String() })}
}

// entry is what a ServiceEntry says.
func (w *watcher) entry(name string) *networking.ServiceEntry {
	r := w.All["ServiceEntry "+name]
	if r == nil {
		return &networking.ServiceEntry{}
	}
	return r.Spec.Message().(*networking.ServiceEntry)
}
