package push_test

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/rpc"
)

// patience bounds every wait.
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

// simulated is an Envoy, as far as a server can tell. It asks for all clusters, then for all
// listeners, and for what those name. It keeps what it has when it reconnects, and drops what
// nothing refers to. It stores a response when it answers it.
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
	inbox   []*answer           // received, and neither stored nor refused yet
	warming map[served.Ref]bool // what has to come, if only again, before what refers to it can be used
	scoped  bool                // it asks for scoped routes
	active  map[string]bool     // the clusters that have all that they need, and can be used
	refused bool                // it refused a response on this stream

	received map[string]int // resources and removals, by type
	taken    func()         // called after it stored a response; may be nil
	picky    *picky         // nil accepts everything
}

func simulate(t testing.TB, conn *grpc.ClientConn, proxy *envoy) *simulated {
	t.Helper()
	return &simulated{t: t, conn: conn, proxy: proxy, has: map[string]map[string]held{}, wants: map[string]map[string]bool{}, active: map[string]bool{}, received: map[string]int{}}
}

// byName are the types that Envoy asks for by names that it finds in others.
var byName = []string{push.EndpointType, push.RouteType, push.SecretType, push.ExtensionType}

// connect opens a stream, and asks for what Envoy needs already.
func (e *simulated) connect() {
	e.t.Helper()
	e.close()
	ctx, cancel := context.WithTimeout(e.t.Context(), patience)
	var err error
	e.stream, err = e.proxy.open(ctx, e.conn)
	require.NoError(e.t, err)
	e.cancel, e.asked, e.nonces, e.inbox, e.refused, e.scoped = cancel, map[string]bool{}, map[string]string{}, nil, false, false
	e.warming = map[served.Ref]bool{}
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
	e.askForScopes()
}

// close ends the stream, if there is one.
func (e *simulated) close() {
	if e.cancel != nil {
		e.cancel()
	}
}

// forget turns it into a process that has just started.
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

// askForHosts asks, once, for the hosts of all route configurations whose hosts are sent apart.
func (e *simulated) askForHosts() {
	for _, r := range e.has[push.RouteType] {
		if len(r.asks) > 0 && !e.asked[push.VirtualHostType] {
			e.ask(push.VirtualHostType, nil, nil)
		}
	}
}

// askForScopes asks for all scoped routes while a listener uses some.
func (e *simulated) askForScopes() {
	scoped := false
	for _, l := range e.has[push.ListenerType] {
		scoped = scoped || len(l.scopes) > 0
	}
	switch {
	case scoped && !e.asked[push.ScopedRouteType]:
		e.ask(push.ScopedRouteType, nil, nil)
	case scoped && !e.scoped:
		e.ask(push.ScopedRouteType, []string{"*"}, nil)
	case !scoped && e.scoped:
		e.ask(push.ScopedRouteType, nil, []string{"*"})
	}
	if e.scoped = scoped; !scoped {
		delete(e.has, push.ScopedRouteType)
	}
}

// receive receives everything that the server has to say now. It puts two marks: the answer to the
// first can overtake later stages of a change that the stream learns of with it, and the stream
// handles the second after them.
func (e *simulated) receive() {
	e.t.Helper()
	e.receiveToMark()
	e.receiveToMark()
}

// receiveToMark receives everything up to the answer about a type that was not asked for yet. In
// the state of the world that is the table of names, which is asked for again each time, and never
// acknowledged, so that nothing else is said of it.
func (e *simulated) receiveToMark() {
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

// answerNext accepts the oldest response, or refuses it.
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

// answerAll answers until the server has nothing more to say.
func (e *simulated) answerAll() {
	e.t.Helper()
	for e.receive(); len(e.inbox) > 0; e.receive() {
		for len(e.inbox) > 0 {
			e.answerNext(false)
		}
	}
}
