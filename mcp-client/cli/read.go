package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/mcp"
)

// errEnough ends a client once it has delivered what was wanted.
var errEnough = errors.New("enough")

// state is the content of a server at one moment, or of a file.
type state struct {
	revision  int64             // 0 without revisions
	resources []*kinds.Resource // sorted in print order
	versions  map[kinds.Key]string
}

// read reads the current resources of some kinds, and shows progress to the user.
func (p *session) read(ctx context.Context, ks []*kinds.Kind) (*state, error) {
	notice := p.notice("reading from " + p.server.address)
	defer notice.end()
	return p.server.state(ctx, ks, &events{message: notice.count, unanswered: func(missing []*kinds.Kind) {
		notice.end()
		p.warnOfMissing(missing)
	}})
}

// warnOfMissing says which kinds are missing from what was read.
func (p *session) warnOfMissing(missing []*kinds.Kind) {
	for _, k := range missing {
		fmt.Fprintf(p.Err, "warning: the server at %s does not say whether it has a %s: what was read is without it\n", p.server.address, k.Name)
	}
}

func (s *server) state(ctx context.Context, ks []*kinds.Kind, on *events) (*state, error) {
	read := &state{versions: map[kinds.Key]string{}}
	err := s.follow(ctx, ks, on, func(b mcp.Batch) error {
		read.revision = b.Revision
		for _, c := range b.Changes {
			if c.Resource != nil {
				read.resources = append(read.resources, c.Resource)
				read.versions[c.Key] = c.Version
			}
		}
		return errEnough
	})
	if !errors.Is(err, errEnough) {
		return nil, err
	}
	read.sort()
	return read, nil
}

func (s *state) sort() {
	slices.SortFunc(s.resources, func(a, b *kinds.Resource) int { return compare(a.Key(), b.Key()) })
}

// compare orders by kind, as in the registry, then by namespace and name.
func compare(a, b kinds.Key) int {
	return cmp.Or(
		cmp.Compare(rank[a.Kind], rank[b.Kind]),
		strings.Compare(a.Namespace, b.Namespace),
		strings.Compare(a.Name, b.Name),
	)
}

var rank = func() map[*kinds.Kind]int {
	ranks := map[*kinds.Kind]int{}
	for i, k := range kinds.All() {
		ranks[k] = i
	}
	return ranks
}()

// optionalTimeout is how long a reader waits for kinds that a server may leave unanswered.
const optionalTimeout = 2 * time.Second

// events has callbacks for what happens on the connection, which the client library repairs by itself. Each may be nil.
type events struct {
	answered    func(mcp.Status) // a stream has its first answer
	reconnected func()           // the client has the server again, after it had the state once
	lost        func(error)
	unanswered  func([]*kinds.Kind) // kinds that the server does not answer for
	message     func(bytes int)     // a message was received
	// patient waits for an overloaded server for as long as it asks: other clients of this program may be
	// what it is busy with.
	patient bool
}

// firstSync watches a client until it has the whole state.
type firstSync struct {
	server   *server
	fail     context.CancelCauseFunc
	patient  bool
	deadline *time.Timer

	synced atomic.Bool
	busy   atomic.Pointer[error] // why the server does not accept the client yet
}

// newFirstSync starts the timeout within which the server must send something.
func (s *server) newFirstSync(fail context.CancelCauseFunc, patient bool) *firstSync {
	b := &firstSync{server: s, fail: fail, patient: patient}
	b.deadline = time.AfterFunc(s.timeout, func() {
		switch busy := b.busy.Load(); {
		case b.synced.Load():
		case busy != nil:
			fail(s.explain(*busy))
		default:
			fail(s.silent())
		}
	})
	return b
}

// received restarts the timeout.
func (b *firstSync) received() {
	if !b.synced.Load() {
		b.deadline.Reset(b.server.timeout)
	}
}

// done says that the client has the state.
func (b *firstSync) done() {
	b.synced.Store(true)
	b.deadline.Stop()
}

// lost handles the end of a stream before the client has the state.
func (b *firstSync) lost(err error) {
	again := mcp.RetryDelay(err)
	if again == 0 || again >= b.server.timeout {
		b.fail(b.server.explain(err))
		return
	}
	b.busy.Store(&err)
	if b.patient {
		b.deadline.Reset(again + b.server.timeout)
	}
}

// follow passes the state of some kinds, and then each change, to apply, until that returns an error or the
// context ends. Losing the server before it has sent the state, or waiting too long for it, is an error. Of later
// losses it tells on.lost, and the client reconnects.
func (s *server) follow(ctx context.Context, ks []*kinds.Kind, on *events, apply func(mcp.Batch) error) error {
	credentials, err := s.credentials()
	if err != nil {
		return err
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	first := s.newFirstSync(fail, on.patient)
	defer first.deadline.Stop()
	counter := onMessage(func(bytes int) {
		first.received()
		if on.message != nil {
			on.message(bytes)
		}
	})
	client := mcp.New(mcp.Config{
		Targets: []string{s.address}, Protocol: s.protocol, Kinds: ks, Name: "mcp-client", DialOptions: append(credentials, counter),
		OptionalTimeout: optionalTimeout, OnUnanswered: on.unanswered,
		Up: func(s mcp.Status) {
			if on.answered != nil {
				on.answered(s)
			}
			if first.synced.Load() && on.reconnected != nil {
				on.reconnected()
			}
		},
		Down: func(err error) {
			if !first.synced.Load() {
				first.lost(err)
			} else if on.lost != nil {
				on.lost(err)
			}
		},
	})
	err = client.Run(ctx, func(b mcp.Batch) error {
		first.done()
		return apply(b)
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
