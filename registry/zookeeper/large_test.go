package zookeeper_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/internal/testbench/zookeepertest"
	"github.com/pgmesh/pgmesh/registry/registrytest"
)

const (
	few   = 5 // instances of a service
	tries = 100
)

func TestALargeRegistry(t *testing.T) {
	z := zookeepertest.Start(t, nil)
	many := registrytest.Services(t, 1000)
	fill(t, z, many)
	for _, watches := range []string{"one", "each"} {
		t.Run(watches, func(t *testing.T) { startsAndTells(t, z, many, watches) })
	}
	t.Run("costs", func(t *testing.T) { costs(t, z, many) })
}

// costs has instances come and go.
func costs(t *testing.T, z *zookeepertest.ZooKeeper, many int) {
	var edits []registrytest.Edit
	for i := range 3 {
		service := many - 1 - i
		host := fmt.Sprintf("service-%d.zookeeper", service)
		edits = append(edits,
			registrytest.Edit{What: "an instance comes", Host: host, Do: func() { z.Put(nodeOf(service, few), contentOf(service, few, 8080)) }},
			registrytest.Edit{What: "an instance goes", Host: host, Do: func() { z.Remove(nodeOf(service, few)) }},
		)
	}
	registrytest.CostsOneAssignment(t, "zookeeper://"+z.Address, many, edits)
}

func fill(t *testing.T, z *zookeepertest.ZooKeeper, many int) {
	t.Helper()
	begun := time.Now()
	nodes, contents := []string{"/services"}, []string{""}
	for i := range many {
		nodes, contents = append(nodes, fmt.Sprintf("/services/service-%d", i)), append(contents, "")
		for n := range few {
			nodes, contents = append(nodes, nodeOf(i, n)), append(contents, contentOf(i, n, 8080))
		}
	}
	z.PutMany(nodes, contents)
	t.Logf("%d services with %d instances are registered after %s", many, many*few, time.Since(begun))
}

func nodeOf(service, n int) string {
	return fmt.Sprintf("/services/service-%d/0c6c7d1e-%04d-%d", service, service, n)
}

func contentOf(service, n, port int) string {
	return fmt.Sprintf(`{"name":"service-%d","id":"0c6c7d1e-%04d-%d","address":"10.%d.%d.%d","port":%d,"sslPort":null,
		"payload":{"@class":"org.springframework.cloud.zookeeper.discovery.ZookeeperInstance","id":"service-%d","name":"service-%d","metadata":{"version":"1.2.3","team":"a","zone":"zone-%d"}},
		"registrationTimeUTC":1700000000000,"serviceType":"DYNAMIC",
		"uriSpec":{"parts":[{"value":"scheme","variable":true},{"value":"://","variable":false},{"value":"address","variable":true},{"value":":","variable":false},{"value":"port","variable":true}]}}`,
		service, service, n, n+1, service/250, service%250+1, port, service, service, n)
}

func startsAndTells(t *testing.T, z *zookeepertest.ZooKeeper, many int, watches string) {
	before := registrytest.Heap()
	h := registrytest.NewTimer()
	begun := time.Now()
	stop := registrytest.Run(open(t, z.Address, "/?watches="+watches), h)
	defer func() { require.ErrorIs(t, stop(), context.Canceled) }()
	<-h.Read
	t.Logf("started in %s; the heap has %d MB more", time.Since(begun), (registrytest.Heap()-before)>>20)
	require.Len(t, h.All(), many)

	offset := map[string]int{"one": 0, "each": 500}[watches]
	measure(t, z, h, "an instance is changed", func(i int) (int, func(*networking.ServiceEntry) bool, string, func()) {
		service, port := offset+i, 9000+i
		return service, func(e *networking.ServiceEntry) bool { return len(e.GetPorts()) == 2 }, nodeOf(service, 0),
			func() { z.Put(nodeOf(service, 0), contentOf(service, 0, port)) }
	})
	measure(t, z, h, "an instance comes", func(i int) (int, func(*networking.ServiceEntry) bool, string, func()) {
		service := offset + 100 + i
		return service, func(e *networking.ServiceEntry) bool { return len(e.GetEndpoints()) == few+1 }, "",
			func() { z.Put(nodeOf(service, few), contentOf(service, few, 8080)) }
	})
	measure(t, z, h, "an instance goes", func(i int) (int, func(*networking.ServiceEntry) bool, string, func()) {
		service := offset + 100 + i
		return service, func(e *networking.ServiceEntry) bool { return len(e.GetEndpoints()) == few }, nodeOf(service, few),
			func() { z.Remove(nodeOf(service, few)) }
	})
	t.Logf("at the end the heap has %d MB more", (registrytest.Heap()-before)>>20)
	require.Equal(t, 3*tries, h.Changes(), "a change of an instance is one of its service, and of nothing else")
}

// measure says how long it takes until the registry tells of a change, and as its floor, until another
// client is told that watches this node alone, or this list, and then has read what is new.
func measure(t *testing.T, z *zookeepertest.ZooKeeper, h *registrytest.Timer, what string, change func(i int) (service int, holds func(*networking.ServiceEntry) bool, node string, do func())) {
	t.Helper()
	var took, floor []time.Duration
	watcher := z.Watcher()
	for i := range tries {
		service, holds, node, do := change(i)
		told := watches(watcher, fmt.Sprintf("/services/service-%d", service), node)
		reached := h.Await(fmt.Sprintf("zookeeper.service-%d", service), holds)
		begun := time.Now()
		do()
		took = append(took, (<-reached).Sub(begun))
		floor = append(floor, (<-told).Sub(begun))
	}
	slices.Sort(took)
	slices.Sort(floor)
	t.Logf("%s: median %s, p95 %s; a client that watches it alone has it after %s, %s", what,
		took[tries/2], took[tries*95/100], floor[tries/2], floor[tries*95/100])
}

// watches has a node watched, or if none is named, the list.
func watches(w *zookeepertest.Watcher, list, node string) <-chan time.Time {
	if node == "" {
		return w.Children(list)
	}
	return w.Node(node)
}
