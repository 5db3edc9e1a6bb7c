package push_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/rpc"
)

// patience is how long tests wait for what must come.
const patience = 60 * time.Second

// listen serves the bench's engine on loopback and returns a connection to it.
func (b *bench) listen(t testing.TB) *grpc.ClientConn {
	t.Helper()
	streams, g := push.NewServer(b.Engine, ads.Limits{}, nil, nil), rpc.NewServer()
	streams.Register(g)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan struct{})
	go func() { defer close(served); _ = g.Serve(l) }()
	t.Cleanup(func() { streams.Shutdown(); g.Stop(); <-served })
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// held is a resource as a simulated Envoy has it.
type held struct {
	version string // "" in a state of the world
	body    []byte
	asks    []ads.Ref // what Envoy asks for when it has taken the resource
	leads   []string  // the clusters that requests are sent to by it
}

// simulated is an Envoy as far as a server can tell: it asks for all clusters, then for all listeners, and by their names for what those
// refer to; it keeps what it has over a reconnect, and lets go of what nothing refers to. It takes a response when it answers it.
type simulated struct {
	t     testing.TB
	conn  *grpc.ClientConn
	proxy *envoy

	stream stream
	cancel context.CancelFunc
	marks  int

	has     map[string]map[string]held
	wants   map[string]map[string]bool // by name
	asked   map[string]bool            // on this stream
	nonces  map[string]string
	inbox   []*answer        // received, and neither taken nor refused yet
	warming map[ads.Ref]bool // what has to come, if only again, before what refers to it can be used
	active  map[string]bool  // the clusters that have come with all that they need, and so can be used
	refused bool             // a response, on this stream

	received map[string]int // resources and removals, by type
	taken    func()         // is called when it has taken a response; nil: nobody cares
	picky    *picky         // nil: it takes everything
}

// answer is a response of either form.
type answer struct {
	typeURL, version, nonce string
	resources               map[string]held
	removed                 []string
}

// stream is one of the two forms of the protocol.
type stream interface {
	ask(typeURL, nonce string, failure *status.Status, names, added, dropped []string, versions map[string]string) error
	recv() (*answer, error)
}

func simulate(t testing.TB, conn *grpc.ClientConn, proxy *envoy) *simulated {
	t.Helper()
	return &simulated{t: t, conn: conn, proxy: proxy, has: map[string]map[string]held{}, wants: map[string]map[string]bool{}, active: map[string]bool{}, received: map[string]int{}}
}

// virtualHostType is of the hosts that come without their route configuration.
const virtualHostType = "type.googleapis.com/envoy.config.route.v3.VirtualHost"

// byName are the types that Envoy asks for by the names that it finds in others.
var byName = []string{push.EndpointType, push.RouteType, push.SecretType, push.ExtensionType}

// connect opens a stream, and asks on it for what Envoy has an interest in already.
func (e *simulated) connect() {
	e.t.Helper()
	e.close()
	ctx, cancel := context.WithTimeout(e.t.Context(), patience)
	var err error
	e.stream, err = e.proxy.open(ctx, e.conn)
	require.NoError(e.t, err)
	e.cancel, e.asked, e.nonces, e.inbox, e.refused = cancel, map[string]bool{}, map[string]string{}, nil, false
	e.warming = map[ads.Ref]bool{}
	e.ask(push.ClusterType, nil, nil)
	for _, typeURL := range byName {
		if len(e.wants[typeURL]) > 0 {
			e.ask(typeURL, slices.Sorted(maps.Keys(e.wants[typeURL])), nil)
		}
	}
	if len(e.has[push.ListenerType]) > 0 {
		e.ask(push.ListenerType, nil, nil)
	}
	if e.proxy.incremental {
		e.ask(push.NameTableType, nil, nil)
	}
	e.askForHosts()
}

// close ends the stream, if there is one.
func (e *simulated) close() {
	if e.cancel != nil {
		e.cancel()
	}
}

// forget makes it a process that has just started.
func (e *simulated) forget() {
	clear(e.has)
	clear(e.wants)
	clear(e.active)
}

// ask asks for a type, or changes what is asked for.
func (e *simulated) ask(typeURL string, added, dropped []string) {
	e.t.Helper()
	versions := map[string]string{}
	if !e.asked[typeURL] {
		for name, h := range e.has[typeURL] {
			versions[name] = h.version
		}
	}
	e.asked[typeURL] = true
	require.NoError(e.t, e.stream.ask(typeURL, e.nonces[typeURL], nil, e.names(typeURL), added, dropped, versions))
}

func (e *simulated) names(typeURL string) []string { return slices.Sorted(maps.Keys(e.wants[typeURL])) }

// askForHosts asks, once, for the hosts of all route configurations that say that theirs come so.
func (e *simulated) askForHosts() {
	for _, r := range e.has[push.RouteType] {
		if len(r.asks) > 0 && !e.asked[virtualHostType] {
			e.ask(virtualHostType, nil, nil)
		}
	}
}

// receive takes in everything that the server has to say now: it answers in order, so what it would have said comes before the answer
// about a type that nobody has asked for. In a state of the world that is the table of names, which is asked for as if anew each time, and
// never acknowledged: so nothing else is said of it.
func (e *simulated) receive() {
	e.t.Helper()
	e.marks++
	mark := push.NameTableType
	if e.proxy.incremental {
		mark = fmt.Sprintf("test/Mark%d", e.marks)
	}
	require.NoError(e.t, e.stream.ask(mark, "", nil, nil, nil, nil, nil))
	for {
		a, err := e.stream.recv()
		require.NoError(e.t, err)
		if a.typeURL == mark {
			if !e.proxy.incremental {
				e.has[mark] = a.resources
			}
			return
		}
		e.received[a.typeURL] += len(a.resources) + len(a.removed)
		e.inbox = append(e.inbox, a)
	}
}

// answerNext takes the oldest response, or refuses it.
func (e *simulated) answerNext(refuse bool) {
	e.t.Helper()
	a := e.inbox[0]
	e.inbox = e.inbox[1:]
	e.nonces[a.typeURL] = a.nonce
	var failure *status.Status
	bad := e.picky.refuses(a)
	switch {
	case len(bad) > 0:
		refuse, failure = true, &status.Status{Code: 3, Message: e.picky.reason(bad)}
		if e.picky.takesTheRest {
			e.take(a.without(bad, e.has[a.typeURL]))
			e.follow()
		}
	case refuse:
		e.refused, failure = true, &status.Status{Code: 3, Message: "no reason"}
	default:
		e.take(a)
	}
	require.NoError(e.t, e.stream.ask(a.typeURL, a.nonce, failure, e.names(a.typeURL), nil, nil, nil))
	if refuse {
		return
	}
	e.follow()
	if e.taken != nil {
		e.taken()
	}
}

// take takes a response in.
func (e *simulated) take(a *answer) {
	before := e.has[a.typeURL]
	if before == nil {
		before = map[string]held{}
	}
	after := maps.Clone(before)
	if !e.proxy.incremental && !slices.Contains(byName, a.typeURL) {
		clear(after)
	}
	for name, h := range a.resources {
		delete(e.warming, ads.Ref{TypeURL: a.typeURL, Name: name})
		if !e.interested(a.typeURL, name) {
			continue
		}
		if was, ok := before[name]; a.typeURL == push.ClusterType && (!ok || string(was.body) != string(h.body)) {
			for _, ref := range h.asks {
				if ref.TypeURL == push.EndpointType {
					e.warming[ref] = true
				}
			}
		}
		after[name] = h
	}
	for _, name := range a.removed {
		if a.typeURL != push.RouteType { // Envoy keeps a route configuration for as long as a listener asks for it
			delete(after, name)
		}
	}
	e.has[a.typeURL] = after
	e.activate()
}

// activate finds which clusters can be used. One that has come again is used as it was until it can be.
func (e *simulated) activate() {
	clusters := e.has[push.ClusterType]
	maps.DeleteFunc(e.active, func(name string, _ bool) bool { _, ok := clusters[name]; return !ok })
	for name, c := range clusters {
		if !slices.ContainsFunc(c.asks, func(ref ads.Ref) bool { return e.warming[ref] }) {
			e.active[name] = true
		}
	}
}

// astray lists the clusters that requests are sent to and that cannot be used.
func (e *simulated) astray() (names []string) {
	for _, typeURL := range []string{push.ListenerType, push.RouteType, virtualHostType} {
		for _, h := range e.has[typeURL] {
			for _, name := range h.leads {
				if !e.active[name] {
					names = append(names, name)
				}
			}
		}
	}
	return names
}

// interested tells whether Envoy has a use for a resource.
func (e *simulated) interested(typeURL, name string) bool {
	if typeURL == virtualHostType {
		_, ok := e.has[push.RouteType][ownerOf(name)]
		return ok
	}
	return !slices.Contains(byName, typeURL) || e.wants[typeURL][name]
}

// ownerOf is the route configuration that a virtual host is one of.
func ownerOf(host string) string { return host[:max(0, strings.LastIndexByte(host, '/'))] }

// follow asks for what the clusters and listeners refer to now, and lets go of what they do not. Listeners are asked for when there are
// clusters.
func (e *simulated) follow() {
	e.t.Helper()
	wanted := map[string]map[string]bool{}
	for _, typeURL := range byName {
		wanted[typeURL] = map[string]bool{}
	}
	for _, typeURL := range []string{push.ClusterType, push.ListenerType} {
		for _, h := range e.has[typeURL] {
			for _, ref := range h.asks {
				wanted[ref.TypeURL][ref.Name] = true
			}
		}
	}
	for _, typeURL := range byName {
		e.want(typeURL, wanted[typeURL])
	}
	maps.DeleteFunc(e.has[virtualHostType], func(name string, _ held) bool { return !e.interested(virtualHostType, name) })
	maps.DeleteFunc(e.warming, func(ref ads.Ref, _ bool) bool { return !e.wants[ref.TypeURL][ref.Name] })
	e.askForHosts()
	if !e.asked[push.ListenerType] {
		e.ask(push.ListenerType, nil, nil)
	}
}

// want makes these the names that are asked for.
func (e *simulated) want(typeURL string, names map[string]bool) {
	e.t.Helper()
	var added, dropped []string
	for name := range names {
		if !e.wants[typeURL][name] {
			added = append(added, name)
		}
	}
	for name := range e.wants[typeURL] {
		if !names[name] {
			dropped = append(dropped, name)
			delete(e.has[typeURL], name)
		}
	}
	e.wants[typeURL] = names
	if len(added)+len(dropped) > 0 {
		e.ask(typeURL, slices.Sorted(slices.Values(added)), slices.Sorted(slices.Values(dropped)))
	}
}

// settle answers until the server has nothing more to say.
func (e *simulated) settle() {
	e.t.Helper()
	for e.receive(); len(e.inbox) > 0; e.receive() {
		for len(e.inbox) > 0 {
			e.answerNext(false)
		}
	}
}

// open opens a stream of the form that the proxy speaks.
func (p *envoy) open(ctx context.Context, conn *grpc.ClientConn) (stream, error) {
	client := discoveryv3.NewAggregatedDiscoveryServiceClient(conn)
	if p.incremental {
		s, err := client.DeltaAggregatedResources(ctx)
		return deltaStream{s, newest(p.Node)}, err
	}
	s, err := client.StreamAggregatedResources(ctx)
	return sotwStream{s, p.Node}, err
}

type deltaStream struct {
	discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient

	node *corev3.Node
}

func (s deltaStream) ask(typeURL, nonce string, failure *status.Status, _, added, dropped []string, versions map[string]string) error {
	return s.Send(&discoveryv3.DeltaDiscoveryRequest{
		Node: s.node, TypeUrl: typeURL, ResponseNonce: nonceOf(nonce, failure != nil || added == nil && dropped == nil), ErrorDetail: failure,
		ResourceNamesSubscribe: added, ResourceNamesUnsubscribe: dropped, InitialResourceVersions: versions,
	})
}

// nonceOf leaves the nonce out of requests that answer nothing.
func nonceOf(nonce string, answers bool) string {
	if answers {
		return nonce
	}
	return ""
}

func (s deltaStream) recv() (*answer, error) {
	m, err := s.Recv()
	if err != nil {
		return nil, err
	}
	a := &answer{typeURL: m.GetTypeUrl(), version: m.GetSystemVersionInfo(), nonce: m.GetNonce(), resources: map[string]held{}, removed: m.GetRemovedResources()}
	for _, r := range m.GetResources() {
		_, h := read(r.GetResource())
		h.version = r.GetVersion()
		a.resources[r.GetName()] = h
	}
	return a, nil
}

type sotwStream struct {
	discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesClient

	node *corev3.Node
}

func (s sotwStream) ask(typeURL, nonce string, failure *status.Status, names, _, _ []string, _ map[string]string) error {
	return s.Send(&discoveryv3.DiscoveryRequest{Node: s.node, TypeUrl: typeURL, ResponseNonce: nonce, ErrorDetail: failure, ResourceNames: names})
}

func (s sotwStream) recv() (*answer, error) {
	m, err := s.Recv()
	if err != nil {
		return nil, err
	}
	a := &answer{typeURL: m.GetTypeUrl(), version: m.GetVersionInfo(), nonce: m.GetNonce(), resources: map[string]held{}}
	for _, r := range m.GetResources() {
		name, h := read(r)
		a.resources[name] = h
	}
	return a, nil
}

// read finds the name of a resource, what Envoy asks for once it has it, and where it leads.
func read(body *anypb.Any) (name string, h held) {
	if body == nil { // an answer that there is nothing
		return "", h
	}
	m, err := body.UnmarshalNew()
	if err != nil {
		panic("a server sends what cannot be read: " + err.Error())
	}
	switch m := m.(type) {
	case interface{ GetClusterName() string }:
		name = m.GetClusterName()
	case interface{ GetName() string }:
		name = m.GetName()
	default:
		name = "names"
	}
	h.body = body.GetValue()
	visit(m.ProtoReflect(), h.see)
	return name, h
}

// see notes what a part of the resource asks for, and where it leads.
func (h *held) see(m proto.Message) {
	ask := func(typeURL, name string) { h.asks = append(h.asks, ads.Ref{TypeURL: typeURL, Name: name}) }
	switch m := m.(type) {
	case *clusterv3.Cluster:
		if m.GetType() == clusterv3.Cluster_EDS {
			ask(push.EndpointType, cmp.Or(m.GetEdsClusterConfig().GetServiceName(), m.GetName()))
		}
	case *hcmv3.HttpConnectionManager:
		if m.GetRds() != nil {
			ask(push.RouteType, m.GetRds().GetRouteConfigName())
		}
	case *hcmv3.HttpFilter:
		if m.GetConfigDiscovery() != nil {
			ask(push.ExtensionType, m.GetName())
		}
	case *tlsv3.SdsSecretConfig:
		if m.GetSdsConfig().GetAds() != nil {
			ask(push.SecretType, m.GetName())
		}
	case *routev3.RouteConfiguration:
		if m.GetVhds() != nil {
			ask(virtualHostType, "*")
		}
	case *routev3.RouteAction:
		if m.GetCluster() != "" {
			h.leads = append(h.leads, m.GetCluster())
		}
	case *routev3.WeightedCluster_ClusterWeight:
		h.leads = append(h.leads, m.GetName())
	case *tcpv3.TcpProxy:
		if m.GetCluster() != "" {
			h.leads = append(h.leads, m.GetCluster())
		}
	case *tcpv3.TcpProxy_WeightedCluster_ClusterWeight:
		h.leads = append(h.leads, m.GetName())
	}
}

// visit goes through a message, and what is packed in it.
func visit(m protoreflect.Message, see func(proto.Message)) {
	if packed, ok := m.Interface().(*anypb.Any); ok {
		if inner, err := packed.UnmarshalNew(); err == nil {
			visit(inner.ProtoReflect(), see)
		}
		return
	}
	see(m.Interface())
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap():
			if f.MapValue().Message() != nil {
				v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool { visit(v.Message(), see); return true })
			}
		case f.Message() == nil:
		case f.IsList():
			for i := range v.List().Len() {
				visit(v.List().Get(i).Message(), see)
			}
		default:
			visit(v.Message(), see)
		}
		return true
	})
}
