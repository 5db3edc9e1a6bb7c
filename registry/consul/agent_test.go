package consul_test

import (
	"fmt"
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/internal/testbench/consultest"
	"github.com/pgmesh/pgmesh/kinds"
)

// unhealthy counts the endpoints of a resource that get no requests.
func (w *watcher) unhealthy(name string) (many int) {
	r := w.All[name]
	if r == nil {
		return -1
	}
	for _, e := range r.Spec.Message().(*networking.ServiceEntry).GetEndpoints() {
		if e.GetLabels()[kinds.HealthLabel] == kinds.HealthUnhealthy {
			many++
		}
	}
	return many
}

// An agent registers a service with a check, which passes and fails, and both can be in maintenance.
func TestHealthOfAnAgentsService(t *testing.T) {
	t.Parallel()
	c := consultest.Start(t, nil)
	w := watch(t, c.Address, "hosts=short")
	until := func(what string, many int) {
		t.Helper()
		w.Until(t, what, func() bool { return w.unhealthy("consul.web") == many })
	}
	c.Put("/v1/agent/service/register", consultest.Config{
		"Name": "web", "Port": 8080, "Check": consultest.Config{"CheckID": "alive", "TTL": "10m"},
	})
	until("nobody has said that it is alive", 1)
	c.Put("/v1/agent/check/pass/alive", nil)
	until("it is alive", 0)
	c.Put("/v1/agent/check/warn/alive", nil)
	c.Put("/v1/agent/check/fail/alive", nil)
	until("it has failed", 1)
	c.Put("/v1/agent/check/pass/alive", nil)
	until("it is alive again", 0)
	c.Put("/v1/agent/service/maintenance/web?enable=true", nil)
	until("it is in maintenance", 1)
	c.Put("/v1/agent/service/maintenance/web?enable=false", nil)
	until("it is back from maintenance", 0)
	c.Put("/v1/agent/maintenance?enable=true", nil)
	until("its node is in maintenance", 1)
	c.Put("/v1/agent/maintenance?enable=false", nil)
	until("its node is back", 0)
	c.Put("/v1/agent/service/deregister/web", nil)
	until("it is gone", -1)
}

// An agent that allows few connections is asked over few, and every change is seen all the same.
func TestFewConnections(t *testing.T) {
	t.Parallel()
	c := consultest.Start(t, consultest.Config{"limits": consultest.Config{"http_max_conns_per_client": 40}})
	for i := range 60 {
		c.Register(consultest.Instance{
			ID: fmt.Sprint("i", i), Service: fmt.Sprint("s", i), Node: "node", Address: "10.0.0.1", Port: 80, Status: "passing",
		})
	}
	w := watch(t, c.Address, "hosts=short")
	w.Until(t, "60 services", func() bool { return len(w.All) == 60 && w.Reason == nil })
	for i := range 60 {
		c.Register(consultest.Instance{
			ID: fmt.Sprint("i", i), Service: fmt.Sprint("s", i), Node: "node", Address: "10.0.0.2", Port: 80, Status: "passing",
		})
	}
	w.Until(t, "60 changes", func() bool {
		for i := range 60 {
			if w.addresses(fmt.Sprint("consul.s", i))["10.0.0.2"] == "" {
				return false
			}
		}
		return w.Reason == nil
	})
}
