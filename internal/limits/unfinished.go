package limits

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
)

const (
	// unfinishedFree is how much of a message may come without a reservation. gRPC lets clients
	// send that much on each stream even if nobody reads it (the streamWindow of internal/rpc).
	unfinishedFree = 128 << 10
	// unfinishedWithin is how long a connection waits for memory. Meanwhile it is not read, so
	// pings are not answered.
	unfinishedWithin = 10 * time.Second
	// A large message must be complete within this time, plus the time for its bytes at this rate.
	unfinishedStay = 30 * time.Second
	unfinishedRate = 1 << 20 // a second
)

// NewUnfinished returns the budget for messages that clients are sending. Each message of more than
// 128 KiB reserves its whole size before the rest of it is read; until then the rest stays at the
// client. 0 means no limit.
func NewUnfinished(total int) *Memory {
	m := NewMemory(total, func(holder string, used, total int) string {
		return fmt.Sprintf("large messages that are on their way take as much memory as they may, %s, and %s of it those from %s", MiB(total), MiB(used), holder)
	})
	m.free, m.within, m.outside = unfinishedFree, unfinishedWithin, true
	return m
}

// BoundUnfinished makes the connections of a server reserve memory for large messages before they
// are read. gRPC shows nobody a message before it is complete, and lets a client send all of it
// once its length is known. A client that gets no memory in time, or stops sending, loses its
// connection.
func BoundUnfinished(of credentials.TransportCredentials, memory *Memory) credentials.TransportCredentials {
	if memory == nil || memory.total <= 0 {
		return of
	}
	return &unfinishedBounds{of, memory}
}

type unfinishedBounds struct {
	credentials.TransportCredentials

	memory *Memory
}

// ServerHandshake performs the handshake, and then follows what the client sends.
func (u *unfinishedBounds) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := u.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	return newArriving(conn, u.memory), info, nil
}

// Clone implements gRPC's interface.
func (u *unfinishedBounds) Clone() credentials.TransportCredentials {
	return &unfinishedBounds{u.TransportCredentials.Clone(), u.memory}
}

// arriving is a connection whose large messages reserve memory of a budget.
type arriving struct {
	net.Conn

	memory *Memory
	holder string
	frames *frames         // used by the reading goroutine only
	open   context.Context //nolint:containedctx // it ends with the connection
	end    context.CancelFunc

	mu     sync.Mutex
	places map[uint32]func() // the functions that release reservations, by stream; nil once the connection is closed
}

func newArriving(conn net.Conn, memory *Memory) *arriving {
	a := &arriving{Conn: conn, memory: memory, holder: neighbourhood(hostOf(conn.RemoteAddr())), places: map[uint32]func(){}}
	a.frames = newFrames(a.take, a.give)
	a.open, a.end = context.WithCancel(context.Background())
	return a
}

// Read returns bytes only once the budget has room for the large messages that they belong to.
func (a *arriving) Read(p []byte) (int, error) {
	n, err := a.Conn.Read(p)
	if refused := a.frames.follow(p[:n]); refused != nil {
		return 0, refused
	}
	return n, err
}

// Close closes the connection, and releases what it has reserved.
func (a *arriving) Close() error {
	a.end()
	a.mu.Lock()
	places := a.places
	a.places = nil
	a.mu.Unlock()
	for _, give := range places {
		give()
	}
	return a.Conn.Close()
}

// take reserves memory for a message. A stranger gets none: so little is read from one that a
// reservation is pointless, and it could keep others from theirs ([Bounded]).
func (a *arriving) take(stream uint32, size int) (done bool, err error) {
	if isStranger(a.RemoteAddr()) {
		return false, nil
	}
	release, err := a.memory.Take(a.open, a.holder, size)
	if err != nil {
		return false, err
	}
	late := time.AfterFunc(unfinishedStay+time.Duration(size)*time.Second/unfinishedRate, func() { _ = a.Close() })
	give := func() { late.Stop(); release() }
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.places == nil {
		give()
		return false, net.ErrClosed
	}
	a.places[stream] = give
	return true, nil
}

// give releases the reservation for the message of a stream, if there is one.
func (a *arriving) give(stream uint32) {
	a.mu.Lock()
	give := a.places[stream]
	delete(a.places, stream)
	a.mu.Unlock()
	if give != nil {
		give()
	}
}
