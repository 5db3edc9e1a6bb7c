package limits

import (
	"errors"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"
)

// How many bytes are read from a stranger. A request for a certificate takes a few kilobytes. The
// limit is on the connection, because gRPC assembles a whole message before any handler sees it.
const (
	strangersBytes  = 256 << 10
	strangersSecond = 1 << 10 // more for each second

	// strangersStay is how long a connection may stay without credentials, and strangersAtOnce how
	// many such connections there may be.
	strangersStay   = 2 * time.Minute
	strangersAtOnce = 1000
)

var (
	errTooMuch = errors.New("a client without credentials sends too much")
	errTooMany = errors.New("too many clients are connected without credentials")
)

// Bounded is a stranger's connection, until somebody vouches for it. Then its limits are gone.
type Bounded struct {
	net.Conn

	since   time.Time
	read    int64
	vouched atomic.Bool
	closed  atomic.Bool
	among   *atomic.Int64
	leave   *time.Timer
}

// bound adds a connection to those of strangers. A server has only so many.
func bound(conn net.Conn, among *atomic.Int64) (*Bounded, error) {
	if among.Add(1) > strangersAtOnce {
		among.Add(-1)
		return nil, errTooMany
	}
	b := &Bounded{Conn: conn, since: time.Now(), among: among}
	b.leave = time.AfterFunc(strangersStay, func() {
		if !b.vouched.Load() {
			_ = b.Close()
		}
	})
	return b, nil
}

// Read returns an error once the connection has read too much, or stayed too long.
func (b *Bounded) Read(p []byte) (int, error) {
	if b.vouched.Load() {
		return b.Conn.Read(p)
	}
	if b.read > strangersBytes+int64(time.Since(b.since).Seconds()*strangersSecond) {
		return 0, errTooMuch
	}
	n, err := b.Conn.Read(p)
	b.read += int64(n)
	return n, err
}

// Close closes the connection.
func (b *Bounded) Close() error {
	if b.closed.CompareAndSwap(false, true) && !b.vouched.Load() {
		b.forget()
	}
	return b.Conn.Close()
}

func (b *Bounded) forget() {
	b.leave.Stop()
	b.among.Add(-1)
}

// RemoteAddr is the client's address. With it, whoever authenticates the client finds the
// connection.
func (b *Bounded) RemoteAddr() net.Addr { return addressOfBounded{b.Conn.RemoteAddr(), b} }

type addressOfBounded struct {
	net.Addr

	of *Bounded
}

// Vouch lifts the limits of the connection with this address, as gRPC reports it: its client is no
// stranger any more.
func Vouch(a net.Addr) {
	if b, is := a.(addressOfBounded); is && b.of.vouched.CompareAndSwap(false, true) && !b.of.closed.Load() {
		b.of.forget()
	}
}

// isStranger reports whether the connection of an address has limits that nobody has lifted.
func isStranger(a net.Addr) bool {
	b, is := a.(addressOfBounded)
	return is && !b.of.vouched.Load()
}

// Credentials are those of a server that treats clients as strangers at first.
type Credentials struct {
	credentials.TransportCredentials

	among *atomic.Int64
}

// BoundStrangers limits what a server reads from clients until [Vouch] is called for them.
func BoundStrangers(of credentials.TransportCredentials) *Credentials {
	return &Credentials{of, &atomic.Int64{}}
}

// ServerHandshake performs the handshake, within the limits for strangers.
func (c *Credentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	b, err := bound(conn, c.among)
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	return b, info, nil
}

// Clone implements gRPC's interface.
func (c *Credentials) Clone() credentials.TransportCredentials {
	return &Credentials{c.TransportCredentials.Clone(), c.among}
}
