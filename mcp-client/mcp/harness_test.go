package mcp_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/mcp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// limit is how long a test waits for an event.
const limit = 20 * time.Second

func kind(name string) *kinds.Kind {
	k, err := kinds.ByName(name)
	if err != nil {
		panic(err)
	}
	return k
}

var (
	serviceEntry   = kind("ServiceEntry")
	virtualService = kind("VirtualService")
	meshConfig     = kind("MeshConfig")
	both           = []*kinds.Kind{serviceEntry, virtualService}
)

// entry is a ServiceEntry with one host.
func entry(name, host string) *kinds.Resource {
	return &kinds.Resource{
		Kind: serviceEntry, Namespace: "default", Name: name, Spec: kinds.SpecOf(&networking.ServiceEntry{Hosts: []string{host}}),
	}
}

// route is a VirtualService with one host.
func route(name, host string) *kinds.Resource {
	return &kinds.Resource{
		Kind: virtualService, Namespace: "default", Name: name, Spec: kinds.SpecOf(&networking.VirtualService{Hosts: []string{host}}),
	}
}

// host returns the host of an entry or a route.
func host(r *kinds.Resource) string {
	switch spec := r.Spec.Message().(type) {
	case *networking.ServiceEntry:
		return spec.GetHosts()[0]
	case *networking.VirtualService:
		return spec.GetHosts()[0]
	}
	return fmt.Sprint(r.Spec.Message())
}

// endpoint is the address of a test's gRPC server. The server can be stopped, and started again on
// the same port.
type endpoint struct {
	t        *testing.T
	register func(*grpc.Server)
	addr     string

	mu     sync.Mutex
	conns  []net.Conn
	server *grpc.Server
	served chan struct{}
}

func listen(t *testing.T, register func(*grpc.Server)) *endpoint {
	e := &endpoint{t: t, register: register, addr: "127.0.0.1:0"}
	e.start()
	t.Cleanup(e.kill)
	return e
}

func (e *endpoint) start() {
	l, err := net.Listen("tcp", e.addr)
	require.NoError(e.t, err)
	e.addr = l.Addr().String()
	e.server, e.served = grpc.NewServer(grpc.WaitForHandlers(true)), make(chan struct{})
	e.register(e.server)
	go func() {
		defer close(e.served)
		_ = e.server.Serve(&counted{l, e})
	}()
}

func (e *endpoint) kill() {
	e.server.Stop()
	<-e.served
}

// cut closes all TCP connections. The server keeps listening.
func (e *endpoint) cut() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.conns {
		_ = c.Close()
	}
	e.conns = nil
}

// counted keeps a listener's connections.
type counted struct {
	net.Listener
	e *endpoint
}

func (l *counted) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.e.mu.Lock()
		l.e.conns = append(l.e.conns, c)
		l.e.mu.Unlock()
	}
	return c, err
}

// handOver passes a server's stream to the test, and returns the error with which the test ends it.
func handOver[S any](ctx context.Context, streams chan<- S, stream S, end <-chan error) error {
	select {
	case streams <- stream:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-end:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// follower is a running client whose batches the test takes one by one.
type follower struct {
	t       *testing.T
	client  *mcp.Client
	batches chan kinds.Batch
	stop    context.CancelFunc
	ended   chan error
}

func follow(t *testing.T, addr string, change ...func(*mcp.Config)) *follower {
	cfg := mcp.Config{
		Targets: []string{addr}, Kinds: both, Name: "test",
		DialOptions: []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())},
	}
	for _, c := range change {
		c(&cfg)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	f := &follower{t: t, client: mcp.New(cfg), batches: make(chan kinds.Batch), stop: cancel, ended: make(chan error, 1)}
	go func() {
		f.ended <- f.client.Run(ctx, func(b kinds.Batch) error {
			select {
			case f.batches <- b:
			case <-ctx.Done():
			}
			return nil
		})
	}()
	t.Cleanup(func() {
		cancel()
		require.ErrorIs(t, <-f.ended, ctx.Err())
		require.False(t, f.client.Status().Connected)
	})
	return f
}

// expect takes the next batch, which must have these changes: "entry a=host", or "entry a gone".
func (f *follower) expect(revision int64, changes ...string) kinds.Batch {
	f.t.Helper()
	select {
	case b := <-f.batches:
		var got []string
		for _, c := range b.Changes {
			what := c.Key.String()
			if c.Resource == nil {
				got = append(got, what+" gone")
			} else {
				require.Equal(f.t, c.Key, c.Resource.Key())
				got = append(got, what+"="+host(c.Resource))
			}
		}
		require.ElementsMatch(f.t, changes, got)
		require.Equal(f.t, revision, b.Revision)
		return b
	case err := <-f.ended:
		f.ended <- err
		require.FailNow(f.t, "the client ended", "%v", err)
	case <-time.After(limit):
		require.FailNow(f.t, "no batch came")
	}
	return kinds.Batch{}
}

func eachForm(t *testing.T, test func(t *testing.T, form func(*mcp.Config))) {
	for _, protocol := range []mcp.Protocol{mcp.Delta, mcp.XDS} {
		t.Run(string(protocol), func(t *testing.T) {
			t.Parallel()
			test(t, func(cfg *mcp.Config) { cfg.Protocol = protocol })
		})
	}
}

func only(ks ...*kinds.Kind) func(*mcp.Config) {
	return func(cfg *mcp.Config) { cfg.Kinds = slices.Clone(ks) }
}
