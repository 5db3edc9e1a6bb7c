package ads_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/rpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// limit is how long a test waits for what must come. No test waits to see that something does not
// come.
const limit = 20 * time.Second

// The types that tests use. Endpoints and routes are the ones that a state-of-the-world client has
// to name.
const (
	clusters  = "test/Cluster"
	endpoints = "test/Endpoints"
	listeners = "test/Listener"
	routes    = "test/Route"
	mark      = "test/Mark"
)

func named(typeURL string) bool { return typeURL == endpoints || typeURL == routes }

// res is the resource "name" with the content "version".
func res(name, version string, refs ...served.Ref) *served.Resource {
	body, err := anypb.New(wrapperspb.String(name + "=" + version))
	if err != nil {
		panic(err)
	}
	return &served.Resource{Name: name, Version: version, Body: body, Refs: refs}
}

// set makes a set of resources that are written "name=version".
func set(resources ...string) *served.Set {
	var list []*served.Resource
	for _, r := range resources {
		name, version, _ := strings.Cut(r, "=")
		list = append(list, res(name, version))
	}
	return served.NewSet(list...)
}

type sets = map[string]*served.Set

// server serves one topic to everybody.
type server struct {
	t     *testing.T
	topic served.Topic
	ads   *ads.Server
	conn  *grpc.ClientConn
	heard *recorder
}

func serve(t *testing.T, configure func(*ads.Config)) *server {
	return serveOn(t, rpc.NewServer(), configure)
}

func serveOn(t *testing.T, g *grpc.Server, configure func(*ads.Config)) *server {
	s := &server{t: t, heard: newRecorder()}
	cfg := ads.Config{
		Open: func(context.Context, *corev3.Node, bool) (*served.Subscriber, error) {
			subscriber := s.topic.Subscribe()
			subscriber.Follower = s.heard
			return subscriber, nil
		},
		Named:      named,
		Identifier: "test",
		Observer:   s.heard,
	}
	if configure != nil {
		configure(&cfg)
	}
	s.ads = ads.NewServer(cfg)
	s.ads.Register(g)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() { defer close(done); _ = g.Serve(l) }()
	t.Cleanup(func() { g.Stop(); <-done })
	s.conn = dial(t, l.Addr().String())
	return s
}

func dial(t *testing.T, address string, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(address, append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// publish makes a state the newest, under a revision like "r1".
func (s *server) publish(revision string, all sets) {
	s.topic.Publish(&served.Snapshot{Revision: revision, Sets: all})
}

// answer is one response, of either form.
type answer struct {
	typeURL, revision, nonce, identifier string

	resources []string // "name=version"
	removed   []string
}

// ask is one request, of either form.
type ask struct {
	typeURL, nonce, refusal string

	subscribe, unsubscribe []string // delta
	held                   map[string]string
	names                  []string // state of the world
}

// form is one of the two forms of the protocol, from the client's side.
type form interface {
	send(ask) error
	recv() (*answer, error)
}

// client is one client's stream.
type client struct {
	t      *testing.T
	form   form
	cancel context.CancelFunc
	marks  int
}

// eachForm runs a test with clients of both forms.
func eachForm(t *testing.T, test func(t *testing.T, connect func(*server) *client)) {
	t.Run("delta", func(t *testing.T) { t.Parallel(); test(t, (*server).delta) })
	t.Run("sotw", func(t *testing.T) { t.Parallel(); test(t, (*server).sotw) })
}

func (s *server) connect(open func(context.Context) (form, error)) *client {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	s.t.Cleanup(cancel)
	f, err := open(ctx)
	require.NoError(s.t, err)
	return &client{t: s.t, form: f, cancel: cancel}
}

func (c *client) send(a ask) {
	c.t.Helper()
	require.NoError(c.t, c.form.send(a))
}

// ask asks for a type for the first time: for some names of it, or for all.
func (c *client) ask(typeURL string, names ...string) {
	c.t.Helper()
	c.send(ask{typeURL: typeURL, names: names, subscribe: names})
}

func (c *client) next() *answer {
	c.t.Helper()
	a, err := c.form.recv()
	require.NoError(c.t, err)
	return a
}

// expect takes the next answer, which must be about this type, revision and resources.
func (c *client) expect(typeURL, revision string, resources ...string) *answer {
	c.t.Helper()
	a := c.next()
	require.Equal(c.t, typeURL, a.typeURL, "the answer: %+v", a)
	require.Equal(c.t, revision, a.revision, "the answer: %+v", a)
	require.ElementsMatch(c.t, resources, a.resources)
	return a
}

func (a *answer) without(t *testing.T, removed ...string) *answer {
	t.Helper()
	require.ElementsMatch(t, removed, a.removed)
	return a
}

// ack accepts an answer. A state-of-the-world client repeats the names that it wants.
func (c *client) ack(a *answer, names ...string) {
	c.t.Helper()
	c.send(ask{typeURL: a.typeURL, nonce: a.nonce, names: names})
}

func (c *client) nack(a *answer, reason string, names ...string) {
	c.t.Helper()
	c.send(ask{typeURL: a.typeURL, nonce: a.nonce, refusal: reason, names: names})
}

// quiet proves that the server has processed all requests and has nothing to send. It asks for a
// new type. The server answers requests in order, and types in the order in which they were first
// asked for, so anything else would come before this answer.
func (c *client) quiet() {
	c.t.Helper()
	c.marks++
	typeURL := fmt.Sprintf("test/Quiet%d", c.marks)
	c.ask(typeURL)
	a := c.next()
	require.Equal(c.t, typeURL, a.typeURL, "expected nothing, got %+v", a)
}

// everything receives what the server has to say now. It marks the end twice: the answer to the
// first mark can overtake later stages of a plan for a snapshot that the stream learns of with it.
func (c *client) everything() (all []*answer) {
	c.t.Helper()
	for range 2 {
		c.marks++
		end := fmt.Sprintf("test/Quiet%d", c.marks)
		c.ask(end)
		a := c.next()
		for ; a.typeURL != end; a = c.next() {
			all = append(all, a)
		}
		c.ack(a) // or it would run nothing
	}
	return all
}

// recorder is an Observer that tests can wait for.
type recorder struct {
	mu     sync.Mutex
	events []string
	more   *sync.Cond
}

func newRecorder() *recorder {
	r := &recorder{}
	r.more = sync.NewCond(&r.mu)
	return r
}

func (r *recorder) addf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, fmt.Sprintf(format, args...))
	r.more.Broadcast()
}

func (r *recorder) Opened(s *ads.Stream) { r.addf("opened %s", s.Node().GetId()) }
func (r *recorder) Closed(s *ads.Stream) { r.addf("closed %s", s.Node().GetId()) }
func (r *recorder) Sent(_ *ads.Stream, m ads.Message) {
	r.addf("sent %s %s +%d -%d", m.TypeURL, m.Revision, m.Resources, m.Removed)
}

func (r *recorder) Acked(_ *ads.Stream, v ads.Verdict) {
	r.addf("acked %s %s", v.TypeURL, v.Revision)
}

func (r *recorder) Nacked(_ *ads.Stream, v ads.Verdict) {
	r.addf("nacked %s %s: %s", v.TypeURL, v.Revision, v.Reason)
}

func (r *recorder) Refusing(_ *ads.Stream, typeURL string, more int) {
	r.addf("refusing %s %+d", typeURL, more)
}

func (r *recorder) Ran(snapshot *served.Snapshot) { r.addf("ran %s", snapshot.Revision) }

func (r *recorder) Limited(limit string, waited time.Duration, turnedAway bool) {
	switch {
	case turnedAway:
		r.addf("turned away by %s", limit)
	case waited > 0:
		r.addf("waited for %s", limit)
	}
}

func (r *recorder) Unreceived(_ *ads.Stream, typeURL string, bytes int) {
	r.addf("unreceived %s %d", typeURL, bytes)
}

// await blocks until an event has been heard.
func (r *recorder) await(t *testing.T, event string) {
	t.Helper()
	late := time.AfterFunc(limit, func() { r.addf("the test's time is over") })
	defer late.Stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	for !slices.Contains(r.events, event) {
		require.NotContains(t, r.events, "the test's time is over", "never heard %q", event)
		r.more.Wait()
	}
}

func (r *recorder) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// open serves one topic to everybody.
func open(topic *served.Topic) func(context.Context, *corev3.Node, bool) (*served.Subscriber, error) {
	return func(context.Context, *corev3.Node, bool) (*served.Subscriber, error) { return topic.Subscribe(), nil }
}
