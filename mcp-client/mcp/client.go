// Package mcp is a client of MCP, Istio's Mesh Configuration Protocol, in each of its forms.
//
// A [Client] follows a server for as long as it is told to: it reconnects when a stream breaks, names the versions that
// it has so that only what differs is sent again, and hands what changed to its user in batches. A batch from a pgmesh
// server is one transaction or several, never part of one. The first batch is the whole state.
//
// Servers that know nothing of batches are understood too, and so are those that only speak the state of the world, or
// only the first generation of the protocol: what they send is compared with what the client has, so that the user sees
// the same thing from all of them.
package mcp

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pgmesh/pgmesh/internal/wait"
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
	Mark string
	// Committed is when that state was, by the clock of the server's database; the zero time if the server does not tell.
	Committed time.Time
	Changes   []Change
}

// Decode makes messages of all specs, on all processors, for those who will ask for most of them.
func (b Batch) Decode() {
	shared(len(b.Changes), func(i int) {
		if r := b.Changes[i].Resource; r != nil {
			r.Spec.Message()
		}
	})
}

// Config says what a Client follows, and how.
type Config struct {
	// Targets are the addresses of servers, as grpc.NewClient takes them. One is followed; when it is lost, the next is tried.
	Targets []string
	// Protocol is the form to speak; empty is Auto.
	Protocol Protocol
	// Kinds to follow; nil for every kind there is.
	Kinds []*kinds.Kind
	// Name of the program, which the server sees.
	Name string
	// Namespace is where the program says that it runs. An istiod compares it with the identity that it is shown.
	Namespace string
	// DialOptions must hold the transport credentials, and those of each stream if there are any. They are made by internal/dial.
	DialOptions []grpc.DialOption
	// Once ends Run when a stream breaks, or cannot be opened, with the reason.
	Once bool
	// Held has the versions of what the client's user has from before. Batches then begin with what differs.
	Held map[kinds.Key]string
	// Bodies keeps with each change what the server sent, byte for byte.
	Bodies bool
	// HoldEmpty is for how long an empty kind has to stay so before it is believed of a server that had some of it. 0 believes at once.
	HoldEmpty time.Duration
	// Patience is how long a silent server is waited for before something else is tried, or somebody is told; 0 is five seconds.
	Patience time.Duration
	// Linger is for how long the first batch waits for what nobody has to answer, such as the MeshConfig, once all else is there. It is for those who
	// read once: who goes on following is told when it comes. 0 is not at all.
	Linger time.Duration
	// Unheard hears of kinds that were waited for in vain so. It may be nil.
	Unheard func([]*kinds.Kind)
	// Up is called, if it is not nil, when a server has answered on a new stream, and Down when a stream is lost, or could not be
	// opened. Going on with another form of the protocol is neither. They are called one at a time, and not while a batch is applied.
	Up   func(Status)
	Down func(error)
	// Standing hears how what the server serves stands to its mesh, before the first batch and whenever that changes, if the server
	// tells. An error ends Run.
	Standing func(Standing) error
	Log      *slog.Logger
}

const defaultPatience = 5 * time.Second

// Client follows one server at a time.
type Client struct {
	cfg   Config
	node  *corev3.Node
	state *state
	holds *holds
	last  mark   // of what was delivered last
	mesh  string // that it is of, "" if nobody said

	mu     sync.Mutex
	status Status
}

// New returns a client that is not connected yet.
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
	if cfg.Patience == 0 {
		cfg.Patience = defaultPatience
	}
	return &Client{cfg: cfg, node: newNode(cfg.Name, cfg.Namespace), state: newState(cfg.Held), holds: newHolds(cfg.HoldEmpty)}
}

// Run follows a server until the context ends or apply fails, and returns the reason. Apply is called with one batch at a
// time; the server is told to go on when it returns.
func (c *Client) Run(ctx context.Context, apply func(Batch) error) error {
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
		if at.goesOn(err) {
			c.cfg.Log.Info("going on with another form of the protocol", "server", at.target, "protocol", at.choice.next, "because", err)
			continue
		}
		err = at.explain(err)
		c.broken(at.target, err)
		if c.cfg.Once {
			return err
		}
		pause := servers.pause(delivered && time.Since(began) >= steady)
		if len(c.cfg.Targets) == 1 { // of several, the next is asked
			pause = max(pause, ComeBack(err))
		}
		if !wait.For(ctx, pause) {
			return ctx.Err()
		}
	}
}

// stream follows a server over one stream, and tells whether anything was delivered.
func (c *Client) stream(ctx context.Context, at *server, apply func(Batch) error) (bool, error) {
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

// applyError is the user's own refusal of a batch or a server, which ends the client.
type applyError struct{ err error }

func (e *applyError) Error() string { return e.err.Error() }
