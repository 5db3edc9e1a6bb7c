package rollout_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/discovery/rollout"
	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/rpc"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/kinds"
	rolloutv1 "github.com/pgmesh/pgmesh/proto/pgmesh/rollout/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is an engine whose proxies connect over gRPC, and whose reporter reports over gRPC.
type bench struct {
	t        *testing.T
	engine   *push.Engine
	config   *configstore.Store
	mesh     *mesh.Mesh
	revision int64
	proxies  *ads.Server
	xds      *grpc.ClientConn
	reports  *reports
}

func start(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, engine: push.New(slog.New(slog.DiscardHandler), prometheus.NewRegistry()), config: configstore.New(), reports: &reports{}}
	proxies := push.NewServer(b.engine, ads.Limits{}, nil, slog.New(slog.DiscardHandler))
	b.proxies, b.xds = proxies, serve(t, proxies.Register)
	server := serve(t, func(g grpc.ServiceRegistrar) { rolloutv1.RegisterRolloutServiceServer(g, b.reports) })
	reporter := rollout.New(rollout.Config{Server: rolloutv1.NewRolloutServiceClient(server), Name: "disco", Proxies: rollout.Of(b.engine, proxies)})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = reporter.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	return b
}

// serve serves something on loopback until the test ends, and returns a connection to it.
func serve(t *testing.T, register func(grpc.ServiceRegistrar)) *grpc.ClientConn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	g := rpc.NewServer()
	register(g)
	done := make(chan struct{})
	go func() { defer close(done); _ = g.Serve(l) }()
	t.Cleanup(func() { g.Stop(); <-done })
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// apply puts resources, given as YAML, into the mesh, and pushes.
func (b *bench) apply(yaml string) {
	b.t.Helper()
	documents, err := kinds.Parse("test.yaml", []byte(yaml))
	require.NoError(b.t, err)
	var changes []kinds.Change
	for _, d := range documents {
		changes = append(changes, kinds.Change{Key: d.Resource.Key(), Resource: d.Resource})
	}
	b.revision++
	step := b.config.Apply(kinds.Batch{Revision: b.revision, Changes: changes})
	b.mesh = mesh.Build(step, b.mesh)
	b.engine.Update(b.mesh, step)
}

// service is a ServiceEntry that a namespace sees, or all if it is *.
func service(name, namespace string) string {
	return fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: %s, namespace: shop}
spec:
  hosts: [%[1]s.shop]
  exportTo: [%[2]q]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP}]
  endpoints: [{address: 10.1.0.1}]
`, name, namespace)
}

// proxy speaks delta as an Envoy does, as far as clusters and listeners go. It answers as it is
// told to.
type proxy struct {
	t      *testing.T
	stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
	leave  func()

	mu      sync.Mutex
	refuses string // a type, if it is about a service or routes
	holds   bool   // it does not answer
	held    []*discoveryv3.DeltaDiscoveryResponse
	has     map[string]bool // the clusters that it has accepted, with their endpoints
}

func (b *bench) connect(name, namespace string) *proxy {
	b.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(b.xds).DeltaAggregatedResources(ctx)
	require.NoError(b.t, err)
	p := &proxy{t: b.t, stream: stream, has: map[string]bool{}}
	ended := make(chan struct{})
	p.leave = sync.OnceFunc(func() { cancel(); <-ended })
	b.t.Cleanup(p.leave)
	node := &corev3.Node{Id: fmt.Sprintf("sidecar~10.0.0.1~%s.%s~%[2]s.svc.cluster.local", name, namespace)}
	for _, typeURL := range []string{push.ClusterType, push.ListenerType} {
		require.NoError(b.t, stream.Send(&discoveryv3.DeltaDiscoveryRequest{Node: node, TypeUrl: typeURL}))
	}
	go func() {
		defer close(ended)
		for {
			r, err := stream.Recv()
			if err != nil {
				return
			}
			p.receive(r)
		}
	}()
	return p
}

func (p *proxy) receive(r *discoveryv3.DeltaDiscoveryResponse) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.holds {
		p.held = append(p.held, r)
		return
	}
	p.answer(r)
}

// answer answers after it has asked for the endpoints of new clusters.
func (p *proxy) answer(r *discoveryv3.DeltaDiscoveryResponse) {
	var clusters []string
	for _, c := range r.GetResources() {
		clusters = append(clusters, c.GetName())
	}
	if r.GetTypeUrl() == push.ClusterType && len(clusters) > 0 {
		_ = p.stream.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: push.EndpointType, ResourceNamesSubscribe: clusters})
	}
	answer := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: r.GetTypeUrl(), ResponseNonce: r.GetNonce()}
	if r.GetTypeUrl() == p.refuses && (p.refuses == push.RouteType || slices.ContainsFunc(clusters, func(name string) bool { return strings.HasSuffix(name, ".shop") })) {
		answer.ErrorDetail = &statuspb.Status{Code: 3, Message: "not this one"}
	} else {
		p.accept(r)
	}
	_ = p.stream.Send(answer) // the stream may have ended
}

// accept applies a response. A cluster counts once its endpoints have come.
func (p *proxy) accept(r *discoveryv3.DeltaDiscoveryResponse) {
	switch r.GetTypeUrl() {
	case push.EndpointType:
		for _, e := range r.GetResources() {
			p.has[e.GetName()] = true
		}
	case push.ClusterType:
		for _, name := range r.GetRemovedResources() {
			delete(p.has, name)
		}
	}
}

// refused reports whether a proxy is known to refuse anything.
func (b *bench) refused(name string) bool {
	return slices.ContainsFunc(b.proxies.Unsorted(), func(s *ads.Stream) bool {
		return strings.Contains(s.Node().GetId(), "~"+name+".") && s.Running().Refused > 0
	})
}

// behave changes what the proxy refuses, and whether it answers at all.
func (p *proxy) behave(refuses string, holds bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuses, p.holds = refuses, holds
	if !holds {
		for _, r := range p.held {
			p.answer(r)
		}
		p.held = nil
	}
}

// reports takes reports as mcp-server does, and knows what they come to.
type reports struct {
	rolloutv1.UnimplementedRolloutServiceServer

	mu       sync.Mutex
	name     string
	revision int64
	proxies  map[uint64]*rolloutv1.Proxy
	rollouts map[int64]*rolloutv1.Rollout
	times    *rolloutv1.Times
	messages []*rolloutv1.ReportRequest
	fail     chan struct{} // closed to end the stream
	check    func(proxy string, runs int64)
	begun    int
}

// Report takes one report.
func (r *reports) Report(stream grpc.BidiStreamingServer[rolloutv1.ReportRequest, rolloutv1.ReportResponse]) error {
	r.mu.Lock()
	r.begun++
	r.name, r.revision, r.proxies, r.fail = "", 0, map[uint64]*rolloutv1.Proxy{}, make(chan struct{})
	r.rollouts, r.times = map[int64]*rolloutv1.Rollout{}, nil
	fail := r.fail
	r.mu.Unlock()
	messages := make(chan *rolloutv1.ReportRequest)
	go func() {
		defer close(messages)
		for {
			m, err := stream.Recv()
			if err != nil {
				return
			}
			select {
			case messages <- m:
			case <-stream.Context().Done():
				return
			}
		}
	}()
	for {
		select {
		case m, open := <-messages:
			if !open {
				return nil
			}
			r.take(m)
			if err := stream.Send(&rolloutv1.ReportResponse{Number: m.GetNumber()}); err != nil {
				return err
			}
		case <-fail:
			r.mu.Lock()
			r.proxies = nil
			r.mu.Unlock()
			return errGone
		}
	}
}

func (r *reports) take(m *rolloutv1.ReportRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.messages = append(r.messages, m)
	r.revision = m.GetRevision()
	if m.GetDiscovery() != "" {
		r.name = m.GetDiscovery()
	}
	for _, p := range m.GetProxies() {
		if p.GetDescription() == nil {
			p.Description = r.proxies[p.GetStream()].GetDescription()
		}
		r.proxies[p.GetStream()] = p
	}
	for _, gone := range m.GetGone() {
		delete(r.proxies, gone)
	}
	for _, rollout := range m.GetRollouts() {
		r.rollouts[rollout.GetRevision()] = rollout
	}
	if m.GetTimes() != nil {
		r.times = m.GetTimes()
	}
	if r.check == nil {
		return
	}
	for _, p := range r.proxies {
		runs := p.GetRuns()
		if p.GetState() == rolloutv1.Proxy_STATE_IN_STEP {
			runs = r.revision
		}
		r.check(p.GetDescription().GetProxy(), runs)
	}
}

// state is what a proxy is shown to be, as "synced 3" or "refused 2".
func (r *reports) state(proxy string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.proxies {
		if p.GetDescription().GetProxy() != proxy {
			continue
		}
		switch p.GetState() {
		case rolloutv1.Proxy_STATE_IN_STEP:
			return fmt.Sprint("synced ", r.revision)
		case rolloutv1.Proxy_STATE_REFUSED:
			return fmt.Sprintf("runs %d, refuses %d of %d", p.GetRuns(), p.GetRefused(), p.GetSent())
		default:
			return fmt.Sprintf("runs %d, is sent %d", p.GetRuns(), p.GetSent())
		}
	}
	return "unknown"
}

func (b *bench) await(proxy, state string) {
	b.t.Helper()
	poll.Within(b.t, 20*time.Second, func(context.Context) error {
		if is := b.reports.state(proxy); is != state {
			return fmt.Errorf("%s is reported as %q, want %q", proxy, is, state)
		}
		return nil
	})
}

// of is what was reported of a proxy.
func (r *reports) of(proxy string) *rolloutv1.Proxy {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.proxies {
		if p.GetDescription().GetProxy() == proxy {
			return p
		}
	}
	return nil
}

// rollout is what was reported of a revision, as "bank: 1 of 2, 1 refused after 3"; "" for nothing.
func (r *reports) rollout(revision int64) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	rollout := r.rollouts[revision]
	if rollout == nil {
		return ""
	}
	var parts []string
	for _, p := range rollout.GetParts() {
		part := fmt.Sprintf("%s: %d of %d", p.GetNamespace(), p.GetRan(), p.GetConcerned())
		if p.GetRefused() > 0 {
			part += fmt.Sprintf(", %d refused", p.GetRefused())
		}
		if p.GetAway() > 0 {
			part += fmt.Sprintf(", %d away", p.GetAway())
		}
		if len(p.GetTook()) != int(p.GetRan()) || !slices.IsSorted(p.GetTook()) {
			part += fmt.Sprintf(" within %v", p.GetTook())
		}
		parts = append(parts, part)
	}
	if parts == nil {
		parts = []string{"nobody"}
	}
	return fmt.Sprintf("%s after %d", strings.Join(parts, "; "), rollout.GetAfter())
}

func (b *bench) awaitRollout(revision int64, rollout string) {
	b.t.Helper()
	poll.Within(b.t, 20*time.Second, func(context.Context) error {
		if is := b.reports.rollout(revision); is != rollout {
			return fmt.Errorf("the rollout of %d is reported as %q, want %q", revision, is, rollout)
		}
		return nil
	})
}
