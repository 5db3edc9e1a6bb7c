package consul_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/internal/testbench/consultest"
)

// addresses are those of the endpoints of a resource, with their localities.
func (w *watcher) addresses(name string) map[string]string {
	r := w.All[name]
	if r == nil {
		return nil
	}
	out := map[string]string{}
	for _, e := range r.Spec.Message().(*networking.ServiceEntry).GetEndpoints() {
		out[e.GetAddress()] = e.GetLocality()
	}
	return out
}

// A service has a host wherever it is, with the datacenters as localities, and one in each of them.
func TestDatacentersAreLocalities(t *testing.T) {
	t.Parallel()
	first := consultest.Start(t, nil)
	second := consultest.Start(t, consultest.Config{"datacenter": "dc2", "retry_join_wan": []string{first.WAN}})
	first.Register(web())
	there := web()
	there.Address = "10.2.0.1"
	second.Register(there)
	first.AwaitDatacenters(2)

	w := watch(t, first.Address, "dc=*")
	w.Until(t, "both datacenters", func() bool { return len(w.addresses("consul.web")) == 2 })
	w.Lock()
	require.Equal(t, map[string]string{"10.0.0.1": "dc1", "10.2.0.1": "dc2"}, w.addresses("consul.web"))
	require.Equal(t, map[string]string{"10.0.0.1": "dc1"}, w.addresses("consul.web.dc1"))
	require.Equal(t, map[string]string{"10.2.0.1": "dc2"}, w.addresses("consul.web.dc2"))
	require.Equal(t, []string{"web.service.dc2.consul"}, w.All["consul.web.dc2"].Spec.Message().(*networking.ServiceEntry).GetHosts())
	w.Unlock()

	// What is in a datacenter that is away stays, and the other one goes on.
	second.Kill()
	w.UntilAway(t, "datacenter dc2: ", "consul.web", "consul.web.dc1", "consul.web.dc2")
	more := web()
	more.ID, more.Node, more.Address = "web-2", "two", "10.0.0.2"
	first.Register(more)
	w.Until(t, "three instances", func() bool { return len(w.addresses("consul.web")) == 3 })
	second.Restart()
	w.Until(t, "back", func() bool { return w.Reason == nil })
	w.Lock()
	defer w.Unlock()
	require.Len(t, w.addresses("consul.web"), 3)
}
