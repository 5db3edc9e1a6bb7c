package announce_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/consultest"
	"github.com/pgmesh/pgmesh/registry/service"
)

const (
	services = 1000
	each     = 5 // instances of a service
)

// Many services take many transactions. What changes then costs what has changed, also for a server
// that takes over. It has the processors for itself.
func TestManyServices(t *testing.T) {
	c := consultest.StartDev(t, nil)
	all := make([]*service.Service, services)
	for i := range all {
		all[i] = web()
		all[i].Name = fmt.Sprint("web-", i)
		for n := range each {
			all[i].Instances = append(all[i].Instances, service.Instance{Address: fmt.Sprintf("10.%d.%d.%d", i/250, i%250, n+1)})
		}
	}
	first := run(t, c.Address, "rate=100000")
	begun := time.Now()
	first.want("m", all...)
	first.until("all are announced", func() bool { return first.wrote == services*each && first.writes })
	t.Logf("%d services with %d instances are announced after %s", services, services*each, time.Since(begun))
	var there struct{ Services []struct{ ID string } }
	require.NoError(t, json.Unmarshal(c.Get("/v1/catalog/node-services/pgmesh"), &there))
	require.Len(t, there.Services, services*each)

	changed := web("10.9.9.9")
	changed.Name = all[7].Name
	all[7] = changed
	begun = time.Now()
	first.want("m", all...)
	untilConsulHas(t, c, "web-7", "10.9.9.9:8080 passing 1")
	t.Logf("one of them is changed after %s", time.Since(begun))
	first.until("it has said so", func() bool { return first.wrote == services*each+each+1 })
	first.stop()

	second := run(t, c.Address, "")
	second.want("m", all...)
	second.until("it writes", func() bool { return second.writes })
	require.Zero(t, second.wrote, "nothing has changed")
}

// The rate bounds how much of Consul's time announcing takes.
func TestARateIsKept(t *testing.T) {
	t.Parallel()
	c := consultest.Start(t, nil)
	s := run(t, c.Address, "rate=40")
	addresses := make([]string, 150)
	for i := range addresses {
		addresses[i] = fmt.Sprintf("10.0.0.%d", i+1)
	}
	begun := time.Now()
	s.want("m", web(addresses...))
	s.until("all are announced", func() bool { return s.wrote == len(addresses) })
	require.Greater(t, time.Since(begun), 2*time.Second, "40 at once, and then 40 a second")
}
