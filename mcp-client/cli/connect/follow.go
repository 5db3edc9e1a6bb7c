package connect

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/retry"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/mcp"
)

// ErrEnough ends a client once it has delivered what was wanted.
var ErrEnough = errors.New("enough")

// Read reads the current resources of some kinds.
func (s *Server) Read(ctx context.Context, ks []*kinds.Kind, on *Events) (*State, error) {
	read := &State{Versions: map[kinds.Key]string{}}
	err := s.Follow(ctx, ks, on, func(b kinds.Batch) error {
		read.Revision = b.Revision
		for _, c := range b.Changes {
			if c.Resource != nil {
				read.Resources = append(read.Resources, c.Resource)
				read.Versions[c.Key] = c.Version
			}
		}
		return ErrEnough
	})
	if !errors.Is(err, ErrEnough) {
		return nil, err
	}
	read.Sort()
	return read, nil
}

// optionalTimeout is how long a reader waits for kinds that a server may leave unanswered.
const optionalTimeout = 2 * time.Second

// Events has callbacks for what happens on the connection, which the client library repairs by
// itself. Each may be nil.
type Events struct {
	Answered    func(mcp.Status) // a stream has its first answer
	Reconnected func()           // the client has the server again, after it had the state once
	Lost        func(error)
	Unanswered  func([]*kinds.Kind) // kinds that the server does not answer for
	Message     func(bytes int)     // a message was received
	// Patient waits for an overloaded server for as long as it asks: other clients of this program
	// may be what it is busy with.
	Patient bool
}

// firstSync watches a client until it has the whole state.
type firstSync struct {
	server   *Server
	fail     context.CancelCauseFunc
	patient  bool
	deadline *time.Timer

	synced atomic.Bool
	busy   atomic.Pointer[error] // why the server does not accept the client yet
}

// newFirstSync starts the timeout within which the server must send something.
func (s *Server) newFirstSync(fail context.CancelCauseFunc, patient bool) *firstSync {
	b := &firstSync{server: s, fail: fail, patient: patient}
	b.deadline = time.AfterFunc(s.Timeout, func() {
		switch busy := b.busy.Load(); {
		case b.synced.Load():
		case busy != nil:
			fail(s.Explain(*busy))
		default:
			fail(s.Silent())
		}
	})
	return b
}

// received restarts the timeout.
func (b *firstSync) received() {
	if !b.synced.Load() {
		b.deadline.Reset(b.server.Timeout)
	}
}

// done says that the client has the state.
func (b *firstSync) done() {
	b.synced.Store(true)
	b.deadline.Stop()
}

// lost handles the end of a stream before the client has the state.
func (b *firstSync) lost(err error) {
	again := retry.Asked(err)
	if again == 0 || again >= b.server.Timeout {
		b.fail(b.server.Explain(err))
		return
	}
	b.busy.Store(&err)
	if b.patient {
		b.deadline.Reset(again + b.server.Timeout)
	}
}

// Follow passes the state of some kinds, and then each change, to apply, until that returns an
// error or the context ends. Losing the server before it has sent the state, or waiting too long
// for it, is an error. Of later losses it tells on.lost, and the client reconnects.
func (s *Server) Follow(ctx context.Context, ks []*kinds.Kind, on *Events, apply func(kinds.Batch) error) error {
	credentials, err := s.credentials()
	if err != nil {
		return err
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	first := s.newFirstSync(fail, on.Patient)
	defer first.deadline.Stop()
	counter := onMessage(func(bytes int) {
		first.received()
		if on.Message != nil {
			on.Message(bytes)
		}
	})
	client := mcp.New(mcp.Config{
		Targets: []string{s.Address}, Protocol: s.Protocol, Kinds: ks, Name: "mcp-client", DialOptions: append(credentials, counter),
		OptionalTimeout: optionalTimeout, OnUnanswered: on.Unanswered,
		Up: func(s mcp.Status) {
			if on.Answered != nil {
				on.Answered(s)
			}
			if first.synced.Load() && on.Reconnected != nil {
				on.Reconnected()
			}
		},
		Down: func(err error) {
			if !first.synced.Load() {
				first.lost(err)
			} else if on.Lost != nil {
				on.Lost(err)
			}
		},
	})
	err = client.Run(ctx, func(b kinds.Batch) error {
		first.done()
		return apply(b)
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
