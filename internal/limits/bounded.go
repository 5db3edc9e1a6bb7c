package limits

import (
	"errors"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"
)

// How much is taken from somebody whom nobody vouches for: what a request for a certificate takes is a few kilobytes. gRPC puts a message together
// before anything here may look at it.
const (
	strangersBytes  = 256 << 10
	strangersSecond = 1 << 10 // more for each second

	// strangersStay is how long one may stay that has not said who it is, and strangersAtOnce how many there may be.
	strangersStay   = 2 * time.Minute
	strangersAtOnce = 1000
)

var (
	errTooMuch = errors.New("a client that nobody vouches for sends too much")
	errTooMany = errors.New("there are as many clients that nobody vouches for as may be")
)

// Bounded is the connection of a stranger, until somebody vouches for it.
type Bounded struct {
	net.Conn

	since   time.Time
	read    int64
	vouched atomic.Bool
	closed  atomic.Bool
	among   *atomic.Int64
	leave   *time.Timer
}

// bound takes a connection among strangers, of whom a server has only so many.
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

// Read reads until it has been too much.
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

// RemoteAddr is where the client is, by which those who find out who it is find the connection.
func (b *Bounded) RemoteAddr() net.Addr { return addressOfBounded{b.Conn.RemoteAddr(), b} }

type addressOfBounded struct {
	net.Addr

	of *Bounded
}

// Vouch says of the connection from an address, as gRPC knows it, that its client is no stranger any more.
func Vouch(a net.Addr) {
	if b, is := a.(addressOfBounded); is && b.of.vouched.CompareAndSwap(false, true) && !b.of.closed.Load() {
		b.of.forget()
	}
}

// isStranger reports whether nobody has vouched for the client at an address, where somebody could have.
func isStranger(a net.Addr) bool {
	b, is := a.(addressOfBounded)
	return is && !b.of.vouched.Load()
}

// Credentials are those of a server to whose connections clients are strangers at first.
type Credentials struct {
	credentials.TransportCredentials

	among *atomic.Int64
}

// BoundStrangers bounds what a server takes from clients until [Vouch] is called for them.
func BoundStrangers(of credentials.TransportCredentials) *Credentials {
	return &Credentials{of, &atomic.Int64{}}
}

// ServerHandshake does it, and bounds the connection.
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

// Clone is for gRPC.
func (c *Credentials) Clone() credentials.TransportCredentials {
	return &Credentials{c.TransportCredentials.Clone(), c.among}
}
