package zookeepertest

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pgmesh/pgmesh/internal/testbench/poll"
)

// Client changes what servers have. It is another client than the one that is tested.
type Client struct {
	// Conn is the test's own connection.
	Conn *zk.Conn

	t    testing.TB
	told []<-chan zk.Event // are closed when the goroutines of the test's connections have ended
}

// connect gives the test a connection that has seen nothing: one that has seen more than a server that
// was wiped knows is refused by it.
func (c *Client) connect(servers ...string) {
	c.t.Helper()
	if old := c.Conn; old != nil {
		go old.Close()
	}
	c.Conn = c.another(servers...)
}

// another is one more connection, which the test waits for, too.
func (c *Client) another(servers ...string) *zk.Conn {
	c.t.Helper()
	conn, told, err := zk.Connect(servers, 20*time.Second, zk.WithLogger(silent{}), zk.WithLogInfo(false), zk.WithDialer(dial))
	if err != nil {
		c.t.Fatal(err)
	}
	c.told = append(c.told, told)
	return conn
}

// impatient waits for no answer longer than patience. By itself the client waits two minutes for a
// session, and a server that is about to start may leave it waiting: it forgets connections that are
// made before it has read what it has (there is a NullPointerException in its log).
type impatient struct{ net.Conn }

// patience is longer than the pauses between pings.
const patience = 5 * time.Second

func dial(network, address string, timeout time.Duration) (net.Conn, error) {
	conn, err := net.DialTimeout(network, address, timeout)
	return impatient{conn}, err
}

func (i impatient) SetReadDeadline(at time.Time) error {
	if longest := time.Now().Add(patience); at.IsZero() || at.After(longest) {
		at = longest
	}
	return i.Conn.SetReadDeadline(at)
}

type silent struct{}

func (silent) Printf(string, ...any) {}

// Ready waits until a server answers.
func (c *Client) Ready() {
	c.t.Helper()
	c.do("exists /", func() error {
		_, _, err := c.Conn.Exists("/")
		return err
	})
}

// close ends the connection, and wait waits for it once the servers have ended: it may wait minutes for
// the answer of one that goes on.
func (c *Client) close() {
	if c.Conn != nil {
		c.Conn.Close()
	}
}

func (c *Client) wait() {
	for _, told := range c.told {
		for range told { // what it says does not matter
		}
	}
}

// do does something with a server, again where the connection was lost meanwhile.
func (c *Client) do(what string, something func() error) {
	c.t.Helper()
	var refused error
	poll.Eventually(c.t, func(context.Context) error {
		refused = something()
		for _, lost := range []error{zk.ErrConnectionClosed, zk.ErrSessionExpired, zk.ErrNoServer, zk.ErrSessionMoved} {
			if errors.Is(refused, lost) {
				return refused
			}
		}
		return nil
	})
	if refused != nil {
		c.t.Fatalf("%s: %v", what, refused)
	}
}
