package ads_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/rpc"
	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
	"github.com/pgmesh/pgmesh/internal/testbench/faultnet"
)

// While an Envoy's stream is cut, its route moves to a new cluster, and the old cluster is removed.
// No request fails when the Envoy comes back. The network is slow, so that requests meet every
// step.
func TestAnEnvoyThatComesBackLosesNoRequest(t *testing.T) {
	t.Parallel()
	for name, split := range map[string]bool{"whole routes": false, "virtual hosts": true} {
		t.Run(name, func(t *testing.T) { t.Parallel(); comesBack(t, split) })
	}
}

func comesBack(t *testing.T, split bool) {
	t.Helper()
	entrance := &door{}
	entrance.open()
	m := newTrafficMesh(t, entrance, split)
	m.routeTo("v1")
	e := envoytest.Start(t, adsBootstrap(t, corev3.ApiConfigSource_DELTA_GRPC, m.slowly()))
	m.arrived(e, "v1")
	traffic := startTraffic(t, e.ListenerAddress(t, "80"))
	traffic.reaches("v1")

	entrance.shut()
	m.s.heard.await(t, "closed real")
	m.routeTo("v2")
	entrance.open()
	m.arrived(e, "v2")
	traffic.reaches("v2")
	traffic.end()
	require.Empty(t, traffic.failure(), "%v", m.s.heard.all())
}

// A changed cluster warms until its endpoints come again. If the stream ends before that, the Envoy
// says on the next one that it has them, and asks for no clusters until this one is warm.
func TestAnEnvoyThatComesBackWhileAClusterWarmsGoesOn(t *testing.T) {
	t.Parallel()
	entrance := &door{}
	entrance.open()
	s := serveOn(t, rpc.NewServer(grpc.StreamInterceptor(entrance.intercept)), forEnvoy(limit))
	mesh := &envoyMesh{t: t, version: "v1"}
	before := mesh.snapshot()
	s.topic.Publish(before)
	e := envoytest.Start(t, adsBootstrap(t, corev3.ApiConfigSource_DELTA_GRPC, s.conn.Target()))
	settled(t, s, e, "v1", nil)

	mesh.version = "version2"
	after := mesh.snapshot()
	after.Sets[eds] = before.Sets[eds]
	s.topic.Publish(&served.Snapshot{Revision: "version2", Sets: after.Sets, Withheld: map[string]bool{eds: true}})
	for began := time.Now(); e.Stat(t, "cluster_manager.warming_clusters") != 4; {
		require.Less(t, time.Since(began), limit, "no cluster warms")
	}
	entrance.shut()
	s.heard.await(t, "closed real")
	s.topic.Publish(after)
	entrance.open()
	settled(t, s, e, "version2", nil)
	require.Equal(t, "version2", appliedBy(t, e)[cds+" n0"])
	require.Zero(t, e.Stat(t, "cluster_manager.warming_clusters"))
}

// trafficMesh is a listener with a route to one cluster, which answers with its own name.
type trafficMesh struct {
	*envoyMesh

	s     *server
	split bool // the virtual host comes without its route configuration
}

func newTrafficMesh(t *testing.T, entrance *door, split bool) *trafficMesh {
	t.Helper()
	g := rpc.NewServer(grpc.StreamInterceptor(entrance.intercept))
	return &trafficMesh{envoyMesh: &envoyMesh{t: t}, split: split, s: serveOn(t, g, func(cfg *ads.Config) {
		forEnvoy(limit)(cfg)
		cfg.Belongs, cfg.Plan.Stages[2].Types = map[string]string{vhds: rds}, []string{rds, vhds}
	})}
}

// slowly returns an address of the server behind a slow network.
func (m *trafficMesh) slowly() string {
	m.t.Helper()
	network, err := faultnet.Listen(m.s.conn.Target())
	require.NoError(m.t, err)
	m.t.Cleanup(network.Close)
	network.Break(func(int) faultnet.Fault {
		return faultnet.Fault{Delay: func() time.Duration { return 20 * time.Millisecond }}
	})
	return network.Addr()
}

// routeTo publishes a mesh with this cluster alone.
func (m *trafficMesh) routeTo(cluster string) {
	m.t.Helper()
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, cluster) }))
	m.t.Cleanup(backend.Close)
	all := map[string][]*served.Resource{}
	m.version = "1"
	m.add(all, lds, "80", m.listener("80", ""))
	m.version = cluster
	m.add(all, cds, cluster, m.cluster(cluster, ""), served.Ref{TypeURL: eds, Name: cluster})
	m.add(all, eds, cluster, endpointsAt(m.t, cluster, backend.Listener.Addr().String()))
	host := &routev3.VirtualHost{Name: "80/all", Domains: []string{"*"}, Routes: []*routev3.Route{{
		Match:  &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
		Action: &routev3.Route_Route{Route: &routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: cluster}}},
	}}}
	if m.split {
		m.add(all, vhds, host.GetName(), host)
		m.version = "1"
		m.add(all, rds, "80", &routev3.RouteConfiguration{Name: "80", Vhds: &routev3.Vhds{ConfigSource: overADS()}})
	} else {
		m.add(all, rds, "80", &routev3.RouteConfiguration{Name: "80", VirtualHosts: []*routev3.VirtualHost{host}})
	}
	next := sets{}
	for typeURL, resources := range all {
		next[typeURL] = served.NewSet(resources...)
	}
	m.s.publish(cluster, next)
}

func endpointsAt(t *testing.T, name, address string) *endpointv3.ClusterLoadAssignment {
	t.Helper()
	at, err := netip.ParseAddrPort(address)
	require.NoError(t, err)
	return &endpointv3.ClusterLoadAssignment{ClusterName: name, Endpoints: []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{{
		HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: &corev3.Address{
			Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
				Address: at.Addr().String(), PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(at.Port())},
			}},
		}}},
	}}}}}
}

// arrived waits until the Envoy has a mesh, and nothing of another. The Envoy's answers pace it.
func (m *trafficMesh) arrived(e *envoytest.Envoy, revision string) {
	m.t.Helper()
	for began := time.Now(); time.Since(began) < limit; e.Get(m.t, "/ready") {
		if streams := m.s.ads.Streams(); len(streams) == 1 && m.hasArrived(streams[0], revision) {
			return
		}
	}
	require.Fail(m.t, "it does not arrive", "%v", m.s.heard.all())
}

func (m *trafficMesh) hasArrived(s *ads.Stream, revision string) bool {
	state, types := s.State(), map[string]ads.TypeState{}
	for _, state := range s.Types() {
		types[state.TypeURL] = state
	}
	leads := rds
	if m.split {
		leads = vhds
	}
	for _, typeURL := range []string{cds, eds, leads} {
		if state := types[typeURL]; state.Behind || state.Unanswered || state.Has.Len() != 1 {
			return false
		}
	}
	return state.Revision == revision && state.Stage == 0
}

// door lets streams in. Shut, it ends open streams and keeps new ones waiting.
type door struct {
	mu     sync.Mutex
	opened chan struct{} // closed while it is open
	leave  []context.CancelFunc
}

func (d *door) open() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.opened == nil {
		d.opened = make(chan struct{})
	}
	close(d.opened)
}

func (d *door) shut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.opened = make(chan struct{})
	for _, leave := range d.leave {
		leave()
	}
	d.leave = nil
}

func (d *door) intercept(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	ctx, leave := context.WithCancel(stream.Context())
	defer leave()
	d.mu.Lock()
	opened := d.opened
	d.mu.Unlock()
	select {
	case <-opened:
	case <-ctx.Done():
		return ctx.Err()
	}
	d.mu.Lock()
	d.leave = append(d.leave, leave)
	d.mu.Unlock()
	return handler(srv, &guest{stream, ctx})
}

// guest is a stream that a door may end.
type guest struct {
	grpc.ServerStream

	ctx context.Context //nolint:containedctx // a stream has a context
}

func (g *guest) Context() context.Context { return g.ctx }

// traffic sends requests, one after the other on each of a few connections.
type traffic struct {
	t       *testing.T
	stop    chan struct{}
	done    sync.WaitGroup
	answers chan string // of late
	asked   atomic.Int64
	failed  atomic.Int64
	first   atomic.Pointer[string] // failure
}

func startTraffic(t *testing.T, at netip.AddrPort) *traffic {
	t.Helper()
	tr := &traffic{t: t, stop: make(chan struct{}), answers: make(chan string)}
	client := &http.Client{Transport: &http.Transport{}, Timeout: limit}
	for range 2 {
		tr.done.Go(func() { tr.ask(client, "http://"+at.String()) })
	}
	t.Cleanup(func() { tr.end(); client.CloseIdleConnections() })
	return tr
}

func (tr *traffic) ask(client *http.Client, url string) {
	for {
		said, err := get(client, url)
		tr.asked.Add(1)
		if err != nil {
			tr.failed.Add(1)
			text := err.Error()
			tr.first.CompareAndSwap(nil, &text)
		}
		select {
		case tr.answers <- said:
		case <-tr.stop:
			return
		default:
		}
	}
}

func get(client *http.Client, url string) (string, error) {
	answer, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, body)
	}
	return string(body), err
}

// reaches waits until a cluster answers.
func (tr *traffic) reaches(cluster string) {
	tr.t.Helper()
	late := time.After(limit)
	for {
		select {
		case said := <-tr.answers:
			if said == cluster {
				return
			}
		case <-late:
			require.Fail(tr.t, "it does not answer", "%s; %s", cluster, tr.failure())
		}
	}
}

func (tr *traffic) end() {
	select {
	case <-tr.stop:
	default:
		close(tr.stop)
	}
	tr.done.Wait()
}

// failure tells what failed first; "" if nothing did.
func (tr *traffic) failure() string {
	if first := tr.first.Load(); first != nil {
		return fmt.Sprintf("%d of %d requests failed, the first with %s", tr.failed.Load(), tr.asked.Load(), *first)
	}
	return ""
}
