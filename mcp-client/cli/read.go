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

// errEnough ends a client that has delivered what was wanted.
var errEnough = errors.New("enough")

// state is what a server had at one moment, or what a file has.
type state struct {
	revision  int64             // 0 where there are none
	resources []*kinds.Resource // sorted as they are printed
	versions  map[kinds.Key]string
}

// read reads all resources of some kinds as they stand, and tells people who wait that it does.
func (p *Program) read(ctx context.Context, ks []*kinds.Kind) (*state, error) {
	waiting := p.wait("reading from " + p.server.address)
	defer waiting.end()
	return p.server.state(ctx, ks, &link{message: waiting.count, unheard: func(left []*kinds.Kind) {
		waiting.end()
		p.warnUnheard(left)
	}})
}

// warnUnheard says what is missing from what was read.
func (p *Program) warnUnheard(left []*kinds.Kind) {
	for _, k := range left {
		fmt.Fprintf(p.Err, "warning: the server at %s does not say whether it has a %s: what was read is without it\n", p.server.address, k.Name)
	}
}

func (s *server) state(ctx context.Context, ks []*kinds.Kind, told *link) (*state, error) {
	read := &state{versions: map[kinds.Key]string{}}
	err := s.follow(ctx, ks, told, func(b mcp.Batch) error {
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

// compare orders by the registry's kinds, then by namespace and name.
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

// lingerFor is how long a reader waits for what a server may leave unanswered.
const lingerFor = 2 * time.Second

// link is told how the streams to the server fare, which the client library mends by itself. What is nil is told nothing.
type link struct {
	status  func(mcp.Status) // of each stream, once it has answered
	up      func()           // again
	down    func(error)
	unheard func([]*kinds.Kind) // of what the server does not answer
	message func(bytes int)     // has come
	// patient has a server waited for that is busy for as long as it says when to come back: it may be busy with others of this program.
	patient bool
}

// beginning is a client that has not been given the state yet.
type beginning struct {
	server   *server
	fail     context.CancelCauseFunc
	patient  bool
	deadline *time.Timer

	synced atomic.Bool
	busy   atomic.Pointer[error] // why the server has not taken it in
}

// begin gives a server so long to say something.
func (s *server) begin(fail context.CancelCauseFunc, patient bool) *beginning {
	b := &beginning{server: s, fail: fail, patient: patient}
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

// heard gives it more time.
func (b *beginning) heard() {
	if !b.synced.Load() {
		b.deadline.Reset(b.server.timeout)
	}
}

// end says that the state is there.
func (b *beginning) end() {
	b.synced.Store(true)
	b.deadline.Stop()
}

// lost says that a stream has ended before the state was there.
func (b *beginning) lost(err error) {
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

// follow hands the state of some kinds, and then each change, to apply, until that returns an error or the context ends. A
// server that is lost, or silent for too long, before it has given the state is an error; one that is lost later is waited for, and
// the losses are told to later.
func (s *server) follow(ctx context.Context, ks []*kinds.Kind, later *link, apply func(mcp.Batch) error) error {
	credentials, err := s.credentials()
	if err != nil {
		return err
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	begun := s.begin(fail, later.patient)
	defer begun.deadline.Stop()
	heard := hearing(func(bytes int) {
		begun.heard()
		if later.message != nil {
			later.message(bytes)
		}
	})
	client := mcp.New(mcp.Config{
		Targets: []string{s.address}, Protocol: s.protocol, Kinds: ks, Name: "mcp-client", DialOptions: append(credentials, heard),
		OptionalTimeout: lingerFor, OnUnanswered: later.unheard,
		Up: func(s mcp.Status) {
			if later.status != nil {
				later.status(s)
			}
			if begun.synced.Load() && later.up != nil {
				later.up()
			}
		},
		Down: func(err error) {
			if !begun.synced.Load() {
				begun.lost(err)
			} else if later.down != nil {
				later.down(err)
			}
		},
	})
	err = client.Run(ctx, func(b mcp.Batch) error {
		begun.end()
		return apply(b)
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
