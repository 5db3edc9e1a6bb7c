package relay_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-server/publish"
	"github.com/pgmesh/pgmesh/mcp-server/relay"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const limit = 20 * time.Second

var discard = slog.New(slog.DiscardHandler)

var serviceEntry = kind("ServiceEntry")

func kind(name string) *kinds.Kind {
	k, err := kinds.ByName(name)
	if err != nil {
		panic(err)
	}
	return k
}

// entry returns a ServiceEntry as it is sent.
func entry(t *testing.T, name, host string) *served.Resource {
	t.Helper()
	body, err := (&kinds.Resource{Kind: serviceEntry, Namespace: "default", Name: name, Spec: kinds.SpecOf(&networking.ServiceEntry{Hosts: []string{host}})}).Any(host)
	require.NoError(t, err)
	return &served.Resource{Name: "default/" + name, Version: host, Body: body}
}

// node is a server: its publisher, and where it serves. A test publishes to the nodes that are
// origins.
type node struct {
	t         *testing.T
	publisher *publish.Publisher
	news      *served.Subscriber
	metrics   *prometheus.Registry
	addr      string
	grpc      *grpc.Server
	served    chan struct{}
	following *relay.Relay // nil for one that follows nobody
}

// listen returns a node that serves nothing yet.
func listen(t *testing.T) *node {
	t.Helper()
	n := &node{t: t, addr: "127.0.0.1:0"}
	n.renew()
	n.start()
	t.Cleanup(n.kill)
	return n
}

// renew makes the node forget everything, as a restart does.
func (n *node) renew() {
	n.metrics = prometheus.NewRegistry()
	n.publisher = publish.New(n.metrics)
	n.news = n.publisher.Subscribe()
}

func (n *node) start() {
	p := n.publisher
	open := func(context.Context) (*served.Subscriber, error) { return p.Subscribe(), nil }
	n.startWith(publish.NewServer(open, publish.Within{}, nil, discard).Register)
}

func (n *node) startWith(register func(grpc.ServiceRegistrar)) {
	l, err := net.Listen("tcp", n.addr)
	require.NoError(n.t, err)
	n.addr, n.grpc, n.served = l.Addr().String(), grpc.NewServer(grpc.WaitForHandlers(true)), make(chan struct{})
	register(n.grpc)
	server, served := n.grpc, n.served
	go func() {
		defer close(served)
		_ = server.Serve(l)
	}()
}

// kill ends the server like a crash. It may be called again.
func (n *node) kill() {
	n.grpc.Stop()
	<-n.served
}

func origin(mesh string) publish.Source { return publish.Source{Name: publish.Database, Mesh: mesh} }

// load publishes the complete content of an origin: entries whose hosts are "name.example".
func (n *node) load(mesh string, revision int64, names ...string) {
	n.t.Helper()
	n.publisher.Begin(origin(mesh))
	n.publisher.Replace(content(n.t, names...), position(revision))
}

func content(t *testing.T, names ...string) publish.Content {
	all := publish.Content{Resources: map[*kinds.Kind][]*served.Resource{}}
	for _, name := range names {
		all.Resources[serviceEntry] = append(all.Resources[serviceEntry], entry(t, name, name+".example"))
	}
	return all
}

func position(revision int64) publish.Position {
	return publish.Position{Revision: revision, Mark: fmt.Sprint("xid", revision)}
}

// change publishes a revision that sets the host of an entry.
func (n *node) change(revision int64, name, host string) {
	n.t.Helper()
	n.publisher.Apply(publish.Changes{
		Upserts: map[*kinds.Kind][]*served.Resource{serviceEntry: {entry(n.t, name, host)}},
	}, position(revision))
}

// follow returns a node that relays others.
func follow(t *testing.T, change func(*relay.Options), upstreams ...*node) *node {
	t.Helper()
	n := listen(t)
	n.relay(change, upstreams...)
	return n
}

func (n *node) relay(change func(*relay.Options), upstreams ...*node) {
	o := relay.Options{DialOptions: []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}}
	for _, u := range upstreams {
		o.Upstreams = append(o.Upstreams, u.addr)
	}
	if change != nil {
		change(&o)
	}
	r := relay.New(n.publisher, discard, n.metrics, o)
	n.following = r
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	n.t.Cleanup(func() {
		stop()
		require.ErrorIs(n.t, <-ended, context.Canceled)
	})
}

// await returns the first snapshot that satisfies a condition.
func (n *node) await(what string, is func(*served.Snapshot) bool) *served.Snapshot {
	n.t.Helper()
	timeout := time.After(limit)
	for {
		if snap := n.news.Snapshot(); snap != nil && is(snap) {
			return snap
		}
		select {
		case <-n.news.Changed():
		case <-timeout:
			require.FailNow(n.t, "never served", "%s; served is %v, %+v", what, n.names(), n.publisher.Source())
		}
	}
}

// at waits for a revision that is as fresh as that.
func (n *node) at(revision int64, fresh bool) *served.Snapshot {
	n.t.Helper()
	return n.await(fmt.Sprintf("revision %d, fresh: %t", revision, fresh), func(s *served.Snapshot) bool {
		return s.Revision == fmt.Sprint(revision) && (n.standing(s).GetStaleSince() == nil) == fresh
	})
}

func (n *node) standing(s *served.Snapshot) *mcpv1.Standing {
	n.t.Helper()
	m := &mcpv1.Standing{}
	require.NoError(n.t, s.Sets[mcpv1.StandingTypeURL].Get(mcpv1.StandingName).Body.UnmarshalTo(m))
	return m
}

// names lists the served resources with their versions.
func (n *node) names() (names []string) {
	if snap := n.news.Snapshot(); snap != nil {
		for r := range snap.Sets[serviceEntry.TypeURL()].All() {
			names = append(names, r.Name+"@"+r.Version)
		}
	}
	return names
}

// failures returns how often an upstream was left or not reached.
func (n *node) failures(upstream *node) float64 {
	n.t.Helper()
	families, err := n.metrics.Gather()
	require.NoError(n.t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "pgmesh_mcp_server_upstream_failures_total" && m.GetLabel()[0].GetValue() == upstream.addr {
				return m.GetCounter().GetValue()
			}
		}
	}
	require.FailNow(n.t, "no such metric")
	return 0
}
