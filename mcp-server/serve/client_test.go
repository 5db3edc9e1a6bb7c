package serve_test

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/mcp"
)

var plaintext = []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}

// client follows a server, and records what it was sent.
type client struct {
	t         *testing.T
	batches   chan kinds.Batch
	standings chan mcp.Standing
	held      map[kinds.Key]string
	stop      func()
}

// connect follows a server from the held versions, which may be nil.
func connect(t *testing.T, address string, held map[kinds.Key]string) *client {
	t.Helper()
	return connectBy(t, address, held, plaintext)
}

func connectBy(t *testing.T, address string, held map[kinds.Key]string, dial []grpc.DialOption) *client {
	t.Helper()
	return connectFor(t, address, held, dial, kinds.All())
}

func connectWithSecrets(t *testing.T, address string, held map[kinds.Key]string, dial []grpc.DialOption) *client {
	t.Helper()
	return connectFor(t, address, held, dial, kinds.WithSecrets())
}

func connectFor(t *testing.T, address string, held map[kinds.Key]string, dial []grpc.DialOption, of []*kinds.Kind) *client {
	t.Helper()
	c := &client{t: t, batches: make(chan kinds.Batch), standings: make(chan mcp.Standing, 100), held: map[kinds.Key]string{}}
	maps.Copy(c.held, held)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = mcp.New(mcp.Config{
			Targets: []string{address}, Name: "test", Kinds: of, DialOptions: dial, Held: held, Bodies: true,
			Standing: func(s mcp.Standing) error { c.standings <- s; return nil },
		}).Run(ctx, func(b kinds.Batch) error {
			select {
			case c.batches <- b:
			case <-ctx.Done():
			}
			return nil
		})
	}()
	c.stop = func() { cancel(); <-ended }
	t.Cleanup(c.stop)
	return c
}

const limit = 30 * time.Second

// next returns the next batch.
func (c *client) next() kinds.Batch {
	c.t.Helper()
	select {
	case b := <-c.batches:
		for _, change := range b.Changes {
			if change.Resource == nil {
				delete(c.held, change.Key)
			} else {
				c.held[change.Key] = change.Version
			}
		}
		return b
	case <-time.After(limit):
		require.FailNow(c.t, "no batch came")
		return kinds.Batch{}
	}
}

// until takes batches up to a revision, and returns the names that changed in that.
func (c *client) until(revision int64) (names []string) {
	c.t.Helper()
	for {
		if b := c.next(); b.Revision == revision {
			return namesOf(b)
		}
	}
}

func namesOf(b kinds.Batch) (names []string) {
	for _, change := range b.Changes {
		name := change.Key.Name
		if change.Resource == nil {
			name += " gone"
		}
		names = append(names, name)
	}
	return names
}

// standing waits for a standing of the server that fits.
func (c *client) standing(is func(mcp.Standing) bool) mcp.Standing {
	c.t.Helper()
	for {
		select {
		case s := <-c.standings:
			if is(s) {
				return s
			}
		case <-time.After(limit):
			require.FailNow(c.t, "the server has not said so")
		}
	}
}

func live(s mcp.Standing) bool  { return s.Stale.IsZero() }
func stale(s mcp.Standing) bool { return !s.Stale.IsZero() }
