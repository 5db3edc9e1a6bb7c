package consul_test

import (
	"fmt"
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/internal/testbench/consultest"
)

// endpoints counts those of a resource.
func (w *watcher) endpoints(name string) int {
	r := w.All[name]
	if r == nil {
		return 0
	}
	return len(r.Spec.Message().(*networking.ServiceEntry).GetEndpoints())
}

// Nodes come with an instance of a service that is not watched, and go with it. Whether the list of nodes
// or that of services is told first is chance, so it happens several times.
func TestNodesComeAndGoWithAnInstance(t *testing.T) {
	t.Parallel()
	c := consultest.Start(t, nil)
	c.Register(web())
	for i := range 40 { // more services than nodes, so that nodes are looked at
		c.Register(consultest.Instance{ID: fmt.Sprintf("more-%d", i), Service: fmt.Sprintf("more-%d", i), Node: "one", Address: "10.0.0.2", Port: 8080, Status: "passing"})
	}
	w := watch(t, c.Address, "hosts=short&watches=0")
	until := func(many int) {
		t.Helper()
		w.Until(t, fmt.Sprintf("web has %d endpoints", many), func() bool { return w.endpoints("consul.web") == many })
	}
	until(1)
	for i := range 10 {
		second := web()
		second.ID, second.Node, second.Address = "web-2", fmt.Sprintf("new-%d", i), "10.0.0.9"
		c.Register(second)
		until(2)
		c.DeregisterNode(second.Node)
		until(1)
	}
}
