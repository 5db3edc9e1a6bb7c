package feed_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/feed"
)

// listener passes connections on to a database, and keeps what clients said.
type listener struct {
	mu   sync.Mutex
	said strings.Builder
}

func (l *listener) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.said.Write(b)
}

// heard is how often clients have said something.
func (l *listener) heard(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.said.String(), text)
}

// listenTo returns a URL of a database over which a client says its queries in full, and who listens.
func listenTo(t *testing.T, database string) (string, *listener) {
	t.Helper()
	at, err := url.Parse(database)
	require.NoError(t, err)
	server := at.Host
	in, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	heard := &listener{}
	var running sync.WaitGroup
	t.Cleanup(func() {
		_ = in.Close()
		running.Wait()
	})
	running.Go(func() {
		for {
			client, err := in.Accept()
			if err != nil {
				return
			}
			running.Go(func() { pass(client, server, heard) })
		}
	})
	options := at.Query()
	options.Set("sslmode", "disable")
	options.Set("default_query_exec_mode", "simple_protocol")
	at.Host, at.RawQuery = in.Addr().String(), options.Encode()
	return at.String(), heard
}

func pass(client net.Conn, server string, heard io.Writer) {
	defer client.Close()
	conn, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	defer conn.Close()
	var up sync.WaitGroup
	up.Go(func() {
		_, _ = io.Copy(conn, io.TeeReader(client, heard))
		_ = conn.Close()
	})
	_, _ = io.Copy(client, conn)
	_ = client.Close()
	up.Wait()
}

// A follower that connects makes sure that the database has what it saw, once.
func TestWhoConnectsAsksOnceForItsPosition(t *testing.T) {
	t.Parallel()
	const position, page = "coalesce(max(revision), 0)", "WITH page AS"
	database := pgtest.New(t)
	db := storetest.Connect(t, database)
	db.Put("x", "a")
	through, heard := listenTo(t, database)
	batches := storetest.Follow(t, storetest.FeedWith(t, storetest.OpenURL(t, database), feed.Options{Replica: through}), 1)
	poll.Eventually(t, func(context.Context) error {
		idle := storetest.Value[bool](db, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'pgmesh feed' AND state = 'idle')")
		if heard.heard(page) == 0 || !idle {
			return errors.New("it has not looked yet")
		}
		return nil
	})
	db.Put("x", "b")
	require.Equal(t, store.Revision(2), (<-batches).Revision)
	require.Equal(t, 1, heard.heard(position))
}
