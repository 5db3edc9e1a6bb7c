package registrytest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	envoys "github.com/pgmesh/pgmesh/internal/testbench/proxy"
)

// Edit changes one instance of a service.
type Edit struct {
	What string
	Host string // the host of the service, which has one port
	Do   func()
}

// CostsOneAssignment has an mcp-server read a large registry, and a proxy know all of its services. Each
// edit may cost the proxy one endpoint assignment, that of its service, and nothing else.
func CostsOneAssignment(t *testing.T, url string, services int, edits []Edit) {
	t.Helper()
	control := startPath(t, url)
	b := &bill{t: t, moved: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		_ = envoys.Run(ctx, envoys.Options{ // it ends with the test
			Address: control.XDS, Node: sidecar(), Incremental: true, Expect: envoys.Expected{Endpoints: services},
			Heard: b.heard, Served: func(time.Time) { close(served) },
		})
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	select {
	case <-served:
	case <-time.After(startsWithin):
		t.Fatal("the proxy does not have all services")
	}
	for i, e := range edits {
		if i == 1 { // the first waits for what is still on its way at the start
			b.forget()
		}
		from := b.many()
		e.Do()
		b.until(e, from)
	}
	for i, e := range edits[1:] {
		require.Equal(t, item{envoys.Endpoints, e.Host}, b.items[i], "%s: the proxy was sent %v", e.What, b.items)
	}
	require.Len(t, b.items, len(edits)-1, "a change of one instance is one endpoint assignment")
}

func sidecar() *corev3.Node {
	return &corev3.Node{Id: "sidecar~10.0.0.1~client.default~default.svc.cluster.local"}
}

// item is a resource that a proxy was sent, or told to be gone, with the host that it is of.
type item struct {
	sort envoys.Type
	host string
}

// bill is what a proxy was sent.
type bill struct {
	t *testing.T

	mu    sync.Mutex
	items []item
	moved chan struct{}
}

func (b *bill) heard(r envoys.Response) {
	var all discoveryv3.DeltaDiscoveryResponse
	if err := proto.Unmarshal(r.Bytes, &all); err != nil {
		b.t.Errorf("a response of %s: %v", r.Type, err)
		return
	}
	names := slices.Clone(all.GetRemovedResources())
	for _, resource := range all.GetResources() {
		names = append(names, resource.GetName())
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range names {
		b.items = append(b.items, item{r.Type, hostOf(name)})
	}
	select {
	case b.moved <- struct{}{}:
	default:
	}
}

func (b *bill) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.items = nil
}

func (b *bill) many() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.items)
}

// until waits for the endpoints of the service that was edited, behind so many items.
func (b *bill) until(e Edit, from int) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 2*poll.Longest)
	defer cancel()
	for !b.has(e, from) {
		select {
		case <-b.moved:
		case <-ctx.Done():
			b.t.Fatalf("%s: the proxy was not sent the endpoints of %s, but %v", e.What, e.Host, b.items[from:])
		}
	}
}

func (b *bill) has(e Edit, from int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Contains(b.items[from:], item{envoys.Endpoints, e.Host})
}
