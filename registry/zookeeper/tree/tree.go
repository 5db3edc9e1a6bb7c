// Package tree follows the nodes below one node of ZooKeeper, down to a level whose nodes are leaves,
// and tells what leaves there are.
//
// One watch has every change below the node told since ZooKeeper 3.6; an older one gets a watch for
// each node. A change only says where to look again, so it does not matter in which order changes
// come, or how many of a node are told at once. Whenever a session is lost everything is read again.
package tree

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/retry"
	"github.com/pgmesh/pgmesh/registry/zookeeper/client"
)

// Shape says which nodes count.
type Shape struct {
	// Lists is how many levels of nodes lead to leaves: two for /services/NAME/ID, where /services is
	// the first.
	Lists int
	// Wanted chooses children of the nodes of a level; nil are all.
	Wanted func(level int, name string) bool
	// Contents says that leaves hold something that is to be read.
	Contents bool
}

// Leaf is a leaf as it is now. An error may also be about a node on the way to leaves.
type Leaf struct {
	Path    string // below the root: "web/id-1"
	Content []byte
	Err     error // why it cannot be read: what is below it stays as it was
	Gone    bool
}

// Listener is told what there is. It is never called concurrently.
type Listener interface {
	// Told tells of leaves that are new, gone, or may have changed.
	Told(leaves []Leaf)
	// Whole says that everything has been told of, and that ZooKeeper can be asked.
	Whole()
	// Away says why ZooKeeper cannot be asked.
	Away(err error)
}

// Tree is what is known of a tree. It is used for one run.
type Tree struct {
	Shape

	Client client.Settings
	// Credentials are those for the next session, "" if there are none; nil if there never are.
	Credentials func() string
	Root        string // "/services"
	// Each has each node watched by a watch of its own.
	Each bool
	// Before says that there was something below the root before this run.
	Before bool

	lists  map[string]map[string]bool // the names of children, by path
	failed map[string]bool            // paths that could not be read
	nodes  int
	tooOld bool // the last session ended when it was asked for one watch for all
	turn   int  // which server is asked first
	order  order
}

// mostNodes bounds what somebody can make a reader keep.
const mostNodes = 500_000

// Run follows the tree until the context ends.
func (t *Tree) Run(ctx context.Context, l Listener) error {
	t.lists, t.failed = map[string]map[string]bool{}, map[string]bool{}
	t.turn = rand.IntN(len(t.Client.Servers)) // so that readers spread over the servers
	loop := retry.Loop{Pauses: retry.Pauses{First: 50 * time.Millisecond, Longest: 5 * time.Second}}
	return loop.Forever(ctx, func(works func()) error {
		err := t.follow(ctx, l, works)
		if ctx.Err() == nil && !errors.Is(err, retry.ErrAtOnce) {
			l.Away(err)
		}
		return err
	})
}

// follow follows the tree for as long as a session lasts.
func (t *Tree) follow(ctx context.Context, l Listener, works func()) error {
	s := &session{Tree: t, dirty: map[string]bool{}, news: make(chan struct{}, 1)}
	settings := t.Client
	settings.First = t.turn
	t.turn++
	if settings.Happened = s.happened; t.Credentials != nil {
		settings.Credentials = t.Credentials()
	}
	if err := s.connect(ctx, settings); err != nil {
		t.order.unknown()
		return err
	}
	defer func() {
		s.conn.Close()
		t.order.seen(s.conn.Newest())
	}()
	if err := t.order.check(s.conn.Newest(), longestBehind*settings.Patience); err != nil {
		return fmt.Errorf("%s: %w", s.conn.Server, err)
	}
	if err := s.begin(ctx); err != nil {
		return err
	}
	if err := s.tell(ctx, l, nil, true); err != nil {
		return err
	}
	l.Whole()
	works()
	return s.goOn(ctx, l, settings.Credentials)
}

// goOn tells of changes.
func (s *session) goOn(ctx context.Context, l Listener, credentials string) error {
	again := time.NewTicker(2 * s.Client.Patience)
	defer again.Stop()
	for {
		select {
		case <-s.news:
		case <-again.C:
			if s.Credentials != nil && s.Credentials() != credentials {
				return retry.ErrAtOnce
			}
			s.lookAgain()
		case <-s.conn.Ended():
			return s.conn.Why()
		case <-ctx.Done():
			return ctx.Err()
		}
		dirty, all := s.take()
		if err := s.tell(ctx, l, dirty, all); err != nil {
			return err
		}
	}
}

func (s *session) tell(ctx context.Context, l Listener, dirty map[string]bool, all bool) error {
	leaves, err := s.look(ctx, dirty, all)
	if len(leaves) > 0 {
		l.Told(leaves)
	}
	return err
}

// connect opens a session with a server that is not behind the one that it takes for the leader.
func (s *session) connect(ctx context.Context, settings client.Settings) (err error) {
	if s.conn, err = client.Dial(ctx, settings); err != nil {
		return err
	}
	if err := s.conn.Sync(ctx, s.Root); err != nil && !errors.Is(err, client.NoNode) {
		s.conn.Close()
		return fmt.Errorf("ZooKeeper cannot say what is newest: %w", err)
	}
	return nil
}

// begin has changes told.
func (s *session) begin(ctx context.Context) error {
	if s.each = s.Each || s.tooOld; s.each {
		s.tooOld = false // the next session may be with another server
		return nil
	}
	err := s.conn.WatchAll(ctx, s.Root)
	if errors.Is(err, client.Unimplemented) || errors.Is(err, client.ErrEnded) { // which follows
		s.tooOld = true
		return retry.ErrAtOnce
	}
	return err
}
