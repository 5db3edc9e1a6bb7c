package registrytest

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/internal/kit/wait"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	envoys "github.com/pgmesh/pgmesh/internal/testbench/proxy"
)

// proxy is one that keeps the endpoints that it is told. It connects again whenever it loses its
// discovery, and keeps what it has meanwhile, as Envoy does.
type proxy struct {
	t       *testing.T
	subject Subject
	stop    func()

	mu     sync.Mutex
	has    map[string][]string // endpoints by cluster, as text, sorted
	kept   []string            // hosts that must be there at any time
	frozen bool
	moved  chan struct{}
}

func runProxy(t *testing.T, s Subject, discovery string) *proxy {
	t.Helper()
	p := &proxy{t: t, subject: s, has: map[string][]string{}, moved: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { p.follow(ctx, discovery) })
	p.stop = func() { cancel(); running.Wait() }
	t.Cleanup(p.stop)
	return p
}

func (p *proxy) follow(ctx context.Context, discovery string) {
	memory := envoys.NewMemory()
	for ctx.Err() == nil {
		_ = envoys.Run(ctx, envoys.Options{ // it ends when discovery does
			Address: discovery, Node: sidecar(), Incremental: true,
			Heard: p.heard, Served: func(time.Time) {}, Memory: memory,
		})
		wait.For(ctx, 20*time.Millisecond)
	}
}

// heard takes a response.
func (p *proxy) heard(r envoys.Response) {
	var all discoveryv3.DeltaDiscoveryResponse
	if err := proto.Unmarshal(r.Bytes, &all); err != nil {
		p.t.Errorf("a response of %s: %v", r.Type, err)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch r.Type {
	case envoys.Clusters:
		p.lose(all.GetRemovedResources())
	case envoys.Endpoints:
		p.lose(all.GetRemovedResources())
		for _, resource := range all.GetResources() {
			var endpoints endpointv3.ClusterLoadAssignment
			if err := resource.GetResource().UnmarshalTo(&endpoints); err != nil {
				p.t.Errorf("%s: %v", resource.GetName(), err)
				return
			}
			p.take(endpoints.GetClusterName(), assigned(&endpoints))
		}
	}
	select {
	case p.moved <- struct{}{}:
	default:
	}
}

// lose forgets clusters, which must not be those that stay.
func (p *proxy) lose(clusters []string) {
	for _, cluster := range clusters {
		if had := p.has[cluster]; len(had) > 0 {
			p.require(cluster, had, nil)
		}
		delete(p.has, cluster)
	}
}

func (p *proxy) take(cluster string, endpoints []string) {
	p.require(cluster, p.has[cluster], endpoints)
	p.has[cluster] = endpoints
}

// require fails the test if something goes that never left the registry, or that cannot have been seen
// to leave it.
func (p *proxy) require(cluster string, before, now []string) {
	if slices.Contains(p.kept, hostOf(cluster)) && len(now) == 0 {
		p.t.Errorf("%s was taken away, and is in the registry", cluster)
	}
	if p.frozen && slices.ContainsFunc(before, func(e string) bool { return !slices.Contains(now, e) }) {
		p.t.Errorf("%s goes from %v to %v while the registry cannot be asked", cluster, before, now)
	}
}

// hostOf is the host of "outbound|80||web.example.com"; others have none.
func hostOf(cluster string) string {
	if host, outbound := strings.CutPrefix(cluster, "outbound|"); outbound {
		return host[strings.LastIndex(host, "|")+1:]
	}
	return ""
}

// assigned are the endpoints of a cluster, as text, sorted.
func assigned(all *endpointv3.ClusterLoadAssignment) (out []string) {
	for _, place := range all.GetEndpoints() {
		for _, e := range place.GetLbEndpoints() {
			at := e.GetEndpoint().GetAddress().GetSocketAddress()
			weight := max(e.GetLoadBalancingWeight().GetValue(), 1)
			out = append(out, endpointText(at.GetAddress(), at.GetPortValue(), weight, e.GetHealthStatus() == corev3.HealthStatus_UNHEALTHY))
		}
	}
	slices.Sort(out)
	return out
}

// served is what the proxy has, or an error where two ports of a host lead to different endpoints.
func (p *proxy) served() (served, error) {
	out := served{}
	for cluster, endpoints := range p.has {
		host := hostOf(cluster)
		if host == "" {
			continue
		}
		if other, twice := out[host]; twice && !slices.Equal(other, endpoints) {
			return nil, fmt.Errorf("%s: there are %v, and at another port %v", cluster, endpoints, other)
		}
		out[host] = endpoints
	}
	return out, nil
}

func (p *proxy) until(want content) {
	p.t.Helper()
	expected := want.asServed(p.subject)
	ctx, cancel := context.WithTimeout(p.t.Context(), 2*poll.Longest)
	defer cancel()
	for {
		p.mu.Lock()
		now, err := p.served()
		p.mu.Unlock()
		if err == nil && reflect.DeepEqual(now, expected) {
			return
		}
		select {
		case <-p.moved:
		case <-ctx.Done():
			p.t.Fatalf("not within %s: the registry has %v, and the proxy %v (%v)", 2*poll.Longest, expected, now, err)
		}
	}
}

func (p *proxy) keep(services ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, service := range services {
		p.kept = append(p.kept, p.subject.Host(service))
	}
}

func (p *proxy) freeze(frozen bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = frozen
}
