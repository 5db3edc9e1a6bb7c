// Package mcp is a client of MCP, Istio's Mesh Configuration Protocol, in its form over xDS.
//
// A [Client] follows a server for as long as it is told to: it reconnects when a stream breaks, names the versions that
// it has so that only what differs is sent again, and hands what changed to its user in batches. A batch from a pgmesh
// server is one transaction or several, never part of one. The first batch is the whole state.
//
// Servers that know nothing of batches are understood too, and so are those that only speak the state of the world: what
// they send is compared with what the client has, so that the user sees the same thing from all of them.
package mcp

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"os"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	grpcbackoff "google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/kinds"
)

// Change is one resource that is new, different, or gone.
type Change struct {
	Key kinds.Key
	// Resource is what it is now, nil when it is gone.
	Resource *kinds.Resource
	// Version is what the server calls it, or a hash of its content where the server gives none.
	Version string
	// Body is what the server sent, if the client's user wants that kept.
	Body *anypb.Any
}

// Batch is a set of changes that belong together, on top of everything that was delivered before.
type Batch struct {
	// Revision is the server's number for the state that the batch leads to, 0 from a server that has none.
	Revision int64
	// Mark is the version of the mark that ended the batch, "" from a server that sends none.
	Mark    string
	Changes []Change
}

// Config says what a Client follows, and how.
type Config struct {
	// Target is the server's address, as grpc.NewClient takes it.
	Target string
	// Kinds to follow; nil for every kind there is.
	Kinds []*kinds.Kind
	// Name of the program, which the server sees.
	Name string
	// DialOptions must hold the transport credentials.
	DialOptions []grpc.DialOption
	// StateOfTheWorld makes the client not try the incremental protocol.
	StateOfTheWorld bool
	// Once ends Run when a stream breaks, with the reason.
	Once bool
	// Held has the versions of what the client's user has from before. Batches then begin with what differs.
	Held map[kinds.Key]string
	// Bodies keeps with each change what the server sent, byte for byte.
	Bodies bool
	// Standing hears how what the server serves stands to its mesh, before the first batch and whenever that changes, if the server
	// tells. An error ends Run.
	Standing func(Standing) error
	Log      *slog.Logger
}

// Client follows one server.
type Client struct {
	cfg  Config
	node *corev3.Node
	sotw bool // the server does not speak delta

	state *state

	mu     sync.Mutex
	status Status
}

// Status is how a client stands.
type Status struct {
	Connected bool
	// Synced is set once the whole state was delivered, and stays.
	Synced   bool
	Revision int64
	// Reconnects counts the streams that broke.
	Reconnects int
	// LastError is why the last stream broke.
	LastError error
	// Standing is what the server told of itself last, nil if it is not one that tells.
	Standing *Standing
}

// New returns a client that is not connected yet.
func New(cfg Config) *Client {
	if cfg.Kinds == nil {
		cfg.Kinds = kinds.All()
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Client{cfg: cfg, node: newNode(cfg.Name), sotw: cfg.StateOfTheWorld, state: newState(cfg.Held)}
}

// newNode names the client in the form that istiod insists on: type~address~id~domain.
func newNode(name string) *corev3.Node {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return &corev3.Node{
		Id:            "sidecar~127.0.0.1~" + name + "." + host + "~cluster.local",
		UserAgentName: "pgmesh-" + name,
		Metadata:      &structpb.Struct{Fields: map[string]*structpb.Value{"GENERATOR": structpb.NewStringValue("api")}},
	}
}

// Status tells how the client stands.
func (c *Client) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

const (
	firstRetry   = 50 * time.Millisecond
	longestRetry = 5 * time.Second
)

// Run follows the server until the context ends or apply fails, and returns the reason. Apply is called with one batch at a
// time; the server is told to go on when it returns.
func (c *Client) Run(ctx context.Context, apply func(Batch) error) error {
	conn, err := grpc.NewClient(c.cfg.Target, append(dialDefaults(), c.cfg.DialOptions...)...)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer c.disconnected()
	retry := &backoff.ExponentialBackOff{
		InitialInterval: firstRetry, MaxInterval: longestRetry, Multiplier: 1.6, RandomizationFactor: 0.5,
	}
	for {
		delivered, err := c.stream(ctx, discoveryv3.NewAggregatedDiscoveryServiceClient(conn), apply)
		if refused, ok := errors.AsType[*applyError](err); ok {
			return refused.err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if delivered { // less does not count: a server may fail on the same answer again and again
			retry.Reset()
		}
		if status.Code(err) == codes.Unimplemented && !c.sotw {
			c.cfg.Log.Info("the server does not speak the incremental protocol: using the state of the world")
			c.sotw = true
			continue
		}
		c.broken(err)
		if c.cfg.Once {
			return err
		}
		if !wait(ctx, retry.NextBackOff()) {
			return ctx.Err()
		}
	}
}

// stream follows the server over one stream, and tells whether anything was delivered.
func (c *Client) stream(ctx context.Context, ads discoveryv3.AggregatedDiscoveryServiceClient, apply func(Batch) error) (bool, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := c.open(ctx, ads)
	if err != nil {
		return false, err
	}
	s := newSession(c, w, apply)
	err = s.run(ctx, cancel)
	return s.delivered, err
}

func (c *Client) open(ctx context.Context, ads discoveryv3.AggregatedDiscoveryServiceClient) (wire, error) {
	if c.sotw {
		g, err := ads.StreamAggregatedResources(ctx)
		return &sotw{g}, err
	}
	g, err := ads.DeltaAggregatedResources(ctx)
	return &delta{g}, err
}

func (c *Client) broken(err error) {
	c.mu.Lock()
	first := c.status.Connected || c.status.LastError == nil || c.status.LastError.Error() != err.Error()
	c.status.Connected, c.status.LastError = false, err
	c.status.Reconnects++
	c.mu.Unlock()
	if first { // the same failure over and over is said once
		c.cfg.Log.Warn("lost the configuration server; what it sent stays in force, and the client goes on trying",
			"server", c.cfg.Target, "error", err)
	}
}

func (c *Client) disconnected() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status.Connected = false
}

func (c *Client) connected() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status.Connected, c.status.LastError = true, nil
	c.cfg.Log.Info("following the configuration server", "server", c.cfg.Target, "incremental", !c.sotw)
}

func (c *Client) delivered(revision int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status.Synced, c.status.Revision = true, revision
}

// applyError is the user's own refusal of a batch or a server, which ends the client.
type applyError struct{ err error }

func (e *applyError) Error() string { return e.err.Error() }

func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// dialDefaults reconnects fast after a restart of the server and notices a dead one within a minute.
func dialDefaults() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32), grpc.MaxCallSendMsgSize(math.MaxInt32)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           grpcbackoff.Config{BaseDelay: firstRetry, Multiplier: 1.6, Jitter: 0.5, MaxDelay: longestRetry},
			MinConnectTimeout: longestRetry,
		}),
	}
}
