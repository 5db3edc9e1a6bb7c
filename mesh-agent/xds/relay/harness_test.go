package relay_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/rpc"
	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
	"github.com/pgmesh/pgmesh/mesh-agent/envoy/bootstrap"
	"github.com/pgmesh/pgmesh/mesh-agent/wasm"
	"github.com/pgmesh/pgmesh/mesh-agent/xds/lastgood"
	"github.com/pgmesh/pgmesh/mesh-agent/xds/relay"
	"github.com/pgmesh/pgmesh/mesh-agent/xds/upstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const limit = 30 * time.Second

const (
	cds  = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	eds  = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
	lds  = "type.googleapis.com/envoy.config.listener.v3.Listener"
	rds  = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
	ecds = "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig"
	nds  = "type.googleapis.com/istio.networking.nds.v1.NameTable"
)

// world is a discovery's configuration: clusters c0, c1, … with one backend each, and a route to
// one of them.
type world struct {
	clusters int
	port     int
	route    string
	wrong    bool // one cluster is invalid for Envoy
	plugins  []wasmPlugin
	taken    int // a listener wants this port of loopback, unless it is 0
}

const overADS = `{"ads": {}, "resource_api_version": "V3", "initial_fetch_timeout": "0s"}`

func (w world) sets(t testing.TB) map[string]*served.Set {
	t.Helper()
	all := map[string][]*served.Resource{}
	add := func(typeURL, name, version string, m proto.Message, text string, refs ...served.Ref) {
		require.NoError(t, protojson.Unmarshal([]byte(text), m), text)
		body, err := anypb.New(m)
		require.NoError(t, err)
		all[typeURL] = append(all[typeURL], &served.Resource{Name: name, Version: version, Body: body, Refs: refs})
	}
	for i := range w.clusters {
		name := fmt.Sprintf("c%d", i)
		policy := "ROUND_ROBIN"
		if w.wrong && i == 1 {
			policy = "LOAD_BALANCING_POLICY_CONFIG"
		}
		add(cds, name, policy, &clusterv3.Cluster{},
			fmt.Sprintf(`{"name": %q, "type": "EDS", "lb_policy": %q, "eds_cluster_config": {"eds_config": %s}}`, name, policy, overADS), served.Ref{TypeURL: eds, Name: name})
		add(eds, name, "1", &endpointv3.ClusterLoadAssignment{}, fmt.Sprintf(`{"cluster_name": %q, "endpoints": [{"lb_endpoints": [{"endpoint": {"address": {
			"socket_address": {"address": "127.0.0.1", "port_value": %d}}}}]}]}`, name, w.port))
	}
	filters := w.filters(add)
	add(lds, "in", fmt.Sprint("1", len(w.plugins)), &listenerv3.Listener{}, fmt.Sprintf(`{"name": "in", "address": {"socket_address": {"address": "127.0.0.1", "port_value": 0}},
		"filter_chains": [{"filters": [{"name": "http", "typed_config": {
			"@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
			"stat_prefix": "in", "rds": {"route_config_name": "r", "config_source": %s},
			"http_filters": [%s{"name": "router", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}]}}]}]}`, overADS, filters))
	if w.taken != 0 {
		name := fmt.Sprintf("127.0.0.1_%d", w.taken)
		add(lds, name, "1", &listenerv3.Listener{}, fmt.Sprintf(`{"name": %q, "address": {"socket_address": {"address": "127.0.0.1", "port_value": %d}},
			"filter_chains": [{"filters": [{"name": "tcp", "typed_config": {
				"@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy", "stat_prefix": "t", "cluster": "c0"}}]}]}`, name, w.taken))
	}
	add(rds, "r", w.route, &routev3.RouteConfiguration{}, fmt.Sprintf(`{"name": "r", "virtual_hosts": [{"name": "all", "domains": ["*"],
		"response_headers_to_add": [{"header": {"key": "route", "value": %[1]q}}],
		"routes": [{"match": {"prefix": "/"}, "route": {"cluster": %[1]q}}]}]}`, w.route))
	out := map[string]*served.Set{}
	for typeURL, resources := range all {
		out[typeURL] = served.NewSet(resources...)
	}
	return out
}

// replica is one discovery of a mesh.
type replica struct {
	ads.Observers

	address string
	server  *grpc.Server

	mu      sync.Mutex
	sent    map[string]int // resources, by type
	refused int
	reasons []string
	acked   map[string]string // revisions, by type
	nodes   []string
	changed chan struct{}
}

func (r *replica) note(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *replica) Sent(_ *ads.Stream, m ads.Message) {
	r.note(func() { r.sent[m.TypeURL] += m.Resources })
}

func (r *replica) Nacked(_ *ads.Stream, v ads.Verdict) {
	r.note(func() { r.refused++; r.reasons = append(r.reasons, v.Reason) })
}

func (r *replica) Acked(_ *ads.Stream, v ads.Verdict) {
	r.note(func() { r.acked[v.TypeURL] = v.Revision })
}

func (r *replica) Opened(s *ads.Stream) {
	r.note(func() { r.nodes = append(r.nodes, s.Node().GetId()) })
}

// await waits for a condition.
func (r *replica) await(t testing.TB, so func() bool) {
	t.Helper()
	timeout := time.After(limit)
	for {
		r.mu.Lock()
		is, changed := so(), r.changed
		r.mu.Unlock()
		if is {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatal("it did not come about")
		}
	}
}

// start starts a discovery, at a given address if there is one.
func start(t testing.TB, mesh *served.Topic, at string) *replica {
	t.Helper()
	if at == "" {
		at = "127.0.0.1:0"
	}
	listener, err := net.Listen("tcp", at)
	require.NoError(t, err)
	r := &replica{address: listener.Addr().String(), server: rpc.NewServer(), sent: map[string]int{}, acked: map[string]string{}, changed: make(chan struct{})}
	ads.NewServer(ads.Config{
		Open:       func(context.Context, *corev3.Node, bool) (*served.Subscriber, error) { return mesh.Subscribe(), nil },
		Named:      func(typeURL string) bool { return typeURL == eds || typeURL == rds || typeURL == ecds },
		Quarantine: true,
		Observer:   r,
		Plan: ads.Plan{Stages: []ads.Stage{
			{Types: []string{cds, eds}, Part: ads.Make}, {Types: []string{lds, rds}, Part: ads.Make}, {Types: []string{lds, rds}}, {Types: []string{cds, eds}},
		}},
	}).Register(r.server)
	served := make(chan struct{})
	go func() { defer close(served); _ = r.server.Serve(listener) }()
	t.Cleanup(func() { r.server.Stop(); <-served })
	return r
}

// publish replaces the world.
func publish(t testing.TB, mesh *served.Topic, w world, more ...*served.Resource) {
	t.Helper()
	sets := w.sets(t)
	if len(more) > 0 {
		sets[nds] = served.NewSet(more...)
	}
	mesh.Publish(&served.Snapshot{Revision: w.route, Sets: sets})
}

// agent is the part of the agent that Envoy's configuration passes through.
type agent struct {
	*relay.Server

	folder string
	socket string
	store  *lastgood.Store
	log    *lines
	wasm   *wasm.Modules // nil unless asked for
	stop   func()
}

// lines is a log.
type lines struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.String()
}

// run runs an agent on a folder, which an earlier agent may have used.
func run(t testing.TB, folder string, o relay.Options, discoveries ...string) *agent {
	t.Helper()
	return runWith(t, folder, o, nil, discoveries...)
}

// runWith runs an agent that fetches modules, if there are options for that.
func runWith(t testing.TB, folder string, o relay.Options, fetching *wasm.Options, discoveries ...string) *agent {
	t.Helper()
	if folder == "" {
		var err error
		folder, err = os.MkdirTemp("", "relay")
		require.NoError(t, err)
		t.Cleanup(func() { os.RemoveAll(folder) })
	}
	a := &agent{folder: folder, socket: filepath.Join(folder, "envoy.sock"), log: &lines{}}
	log := slog.New(slog.NewTextHandler(a.log, nil))
	var err error
	a.store, err = lastgood.Open(lastgood.Options{Folder: filepath.Join(folder, "config"), Owner: "me", Log: log})
	require.NoError(t, err)
	up, err := upstream.Dial(upstream.Options{Addresses: discoveries, Credentials: upstream.Insecure, Log: log})
	require.NoError(t, err)
	o.Discovery, o.Kept, o.Log = up, a.store, log
	if o.Metrics == nil {
		o.Metrics = prometheus.NewRegistry()
	}
	if fetching != nil {
		a.wasm, err = wasm.Open(*fetching, wasm.Surroundings{Folder: filepath.Join(folder, "wasm"), Log: log, Metrics: o.Metrics})
		require.NoError(t, err)
		o.Modules = a.wasm
	}
	a.Server = relay.New(o)
	server := grpc.NewServer(relay.ServerOption())
	a.Register(server)
	_ = os.Remove(a.socket)
	listener, err := net.Listen("unix", a.socket)
	require.NoError(t, err)
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(listener) }()
	a.stop = sync.OnceFunc(func() {
		server.Stop()
		<-served
		up.Close()
		if a.wasm != nil {
			a.wasm.Close()
		}
		a.store.Close()
	})
	t.Cleanup(func() {
		a.stop()
		if t.Failed() {
			t.Log(a.log.String())
		}
	})
	return a
}

func (a *agent) awaitState(t testing.TB, want relay.State) {
	t.Helper()
	require.Eventually(t, func() bool { return a.Status().State == want }, limit, 5*time.Millisecond)
}

func (a *agent) bootstrap(t testing.TB, form bootstrap.XDS) *bootstrapv3.Bootstrap {
	t.Helper()
	b, err := bootstrap.New(bootstrap.Options{
		Socket: a.socket, XDS: form, Role: bootstrap.Sidecar, IP: "127.0.0.1", ID: "box.shop", Namespace: "shop", Domain: "mesh.test",
		Interception: bootstrap.None, Admin: "127.0.0.1:0",
	})
	require.NoError(t, err)
	return b
}

var forms = []bootstrap.XDS{bootstrap.Delta, bootstrap.SotW}

// backend answers every request, and returns its port.
func backend(t testing.TB) int {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	t.Cleanup(server.Close)
	return server.Listener.Addr().(*net.TCPAddr).Port
}

// ask returns the name of the route that answers.
func ask(t testing.TB, e *envoytest.Envoy) (string, error) {
	t.Helper()
	return askAt("http://" + e.ListenerAddress(t, "in").String())
}

var client = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

func askAt(url string) (string, error) {
	answer, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body)
	if answer.StatusCode != http.StatusOK {
		return "", fmt.Errorf("answered %s", answer.Status)
	}
	return answer.Header.Get("Route"), nil
}

// answers waits until a given route answers.
func answers(t testing.TB, e *envoytest.Envoy, route string) {
	t.Helper()
	require.Eventually(t, func() bool {
		got, err := ask(t, e)
		return err == nil && got == route
	}, limit, 5*time.Millisecond)
}

// traffic sends requests until it is stopped, and returns the first failure.
func traffic(t testing.TB, e *envoytest.Envoy) (end func() (int, error)) {
	t.Helper()
	url, stop, failed, sent := "http://"+e.ListenerAddress(t, "in").String(), make(chan struct{}), make(chan error, 1), 0
	go func() {
		for {
			select {
			case <-stop:
				failed <- nil
				return
			default:
			}
			if _, err := askAt(url); err != nil {
				failed <- err
				return
			}
			sent++
		}
	}()
	return func() (int, error) { close(stop); err := <-failed; return sent, err }
}
