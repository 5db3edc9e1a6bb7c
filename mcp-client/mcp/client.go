// Package mcp is a client of MCP, Istio's Mesh Configuration Protocol, in all of its forms.
//
// A [Client] follows a server until its context ends. It reconnects when a stream breaks, names the
// versions that it has so that the server sends only the difference, and delivers changes in
// batches. A batch from a pgmesh server is one transaction or several, never part of one. The first
// batch is the whole state.
//
// The client also follows servers that know no batches, and those that only speak the state of the
// world or the first generation of the protocol. It compares what they send with what it has, so
// its user sees the same changes whatever the server.
package mcp

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"

	"github.com/pgmesh/pgmesh/internal/kit/retry"
	"github.com/pgmesh/pgmesh/internal/kit/wait"
	"github.com/pgmesh/pgmesh/kinds"
)

// Config says which server a Client follows, and how.
type Config struct {
	// Targets are the addresses of servers, in the form that grpc.NewClient takes. The client
	// follows one of them. If it loses that one, it tries the next.
	Targets []string
	// Protocol is the form of the protocol to speak; empty means Auto.
	Protocol Protocol
	// Kinds are the kinds to follow; nil means all of the registry.
	Kinds []*kinds.Kind
	// Name is the name of the program, as the server sees it.
	Name string
	// Namespace is the namespace in which the program claims to run. Istiod compares it with the
	// caller's identity.
	Namespace string
	// DialOptions must have the transport credentials, and those for each call if there are any.
	// Package internal/dial makes them.
	DialOptions []grpc.DialOption
	// Once makes Run return the reason when a stream breaks or cannot be opened.
	Once bool
	// Held has the versions of resources that the user has from an earlier run. Batches then begin
	// with the difference.
	Held map[kinds.Key]string
	// Bodies keeps with each change the bytes that the server sent.
	Bodies bool
	// HoldEmpty is how long a kind must stay empty before the client believes it of a server that
	// had resources of that kind. 0 believes at once.
	HoldEmpty time.Duration
	// AnswerTimeout is how long the client waits for a silent server before it tries something else
	// or logs a warning; 0 means five seconds.
	AnswerTimeout time.Duration
	// OptionalTimeout is how long the first batch waits for kinds that a server may leave
	// unanswered, such as the MeshConfig, once all others are there. It is for programs that read
	// once: others get such a kind in a later batch. 0 does not wait.
	OptionalTimeout time.Duration
	// OnUnanswered is called with the kinds for which OptionalTimeout was too short. It may be nil.
	OnUnanswered func([]*kinds.Kind)
	// Up is called when a server has answered on a new stream, and Down when a stream is lost or
	// could not be opened, but neither when the client changes to another form of the protocol.
	// Either may be nil. They are called one at a time, and not while a batch is being applied.
	Up   func(Status)
	Down func(error)
	// Synced is called once on each stream, when all that the server has was applied, also if that was
	// nothing new and no batch. It may be nil.
	Synced func()
	// Standing is called with the server's standing before the first batch and whenever it changes,
	// if the server sends it. An error ends Run.
	Standing func(Standing) error
	Log      *slog.Logger
}

const defaultAnswerTimeout = 5 * time.Second

// Client follows one server at a time.
type Client struct {
	cfg     Config
	node    *corev3.Node
	state   *state
	holds   *holds
	lastEnd batchEnd // the end of the last batch
	mesh    string   // the mesh that batch is of, "" if unknown

	mu     sync.Mutex
	status Status
}

// New returns a client that is not yet connected.
func New(cfg Config) *Client {
	if cfg.Kinds == nil {
		cfg.Kinds = kinds.All()
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Protocol == "" {
		cfg.Protocol = Auto
	}
	if cfg.AnswerTimeout == 0 {
		cfg.AnswerTimeout = defaultAnswerTimeout
	}
	return &Client{cfg: cfg, node: newNode(cfg.Name, cfg.Namespace), state: newState(cfg.Held), holds: newHolds(cfg.HoldEmpty)}
}

// Run follows a server until the context ends or apply fails, and returns the reason. It calls
// apply with one batch at a time, and acknowledges the batch when apply returns.
func (c *Client) Run(ctx context.Context, apply func(kinds.Batch) error) error {
	servers, err := newServers(c.cfg)
	if err != nil {
		return err
	}
	defer servers.close()
	defer c.disconnected()
	for {
		at := servers.current()
		began := time.Now()
		delivered, err := c.stream(ctx, at, apply)
		if refused, ok := errors.AsType[*applyError](err); ok {
			return refused.err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if at.retryNow(err) {
			c.cfg.Log.Info("going on with another form of the protocol", "server", at.target, "protocol", at.choice.next, "reason", err)
			continue
		}
		err = at.explain(err)
		c.broken(at.target, err)
		if c.cfg.Once {
			return err
		}
		pause := servers.pause(delivered && time.Since(began) >= stableAfter)
		if len(c.cfg.Targets) == 1 { // with several servers, try the next one without waiting
			pause = max(pause, retry.Asked(err))
		}
		if !wait.For(ctx, pause) {
			return ctx.Err()
		}
	}
}

// stream follows a server over one stream, and reports whether any batch was delivered.
func (c *Client) stream(ctx context.Context, at *server, apply func(kinds.Batch) error) (bool, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := c.open(ctx, at)
	if err != nil {
		return false, err
	}
	s := newSession(c, at, w, apply)
	err = s.run(ctx, cancel)
	return s.delivered, err
}

// applyError is an error of the user's callbacks, which ends the client.
type applyError struct{ err error }

func (e *applyError) Error() string { return e.err.Error() }
