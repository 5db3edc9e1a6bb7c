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
	// unfinishedFree is how much of a message may come without a reservation: gRPC lets clients send that much on each stream even if nobody reads it
	// (the streamWindow of internal/rpc).
	unfinishedFree = 128 << 10
	// unfinishedWithin is how long a connection waits for memory. It is not read meanwhile, and pings are not answered.
	unfinishedWithin = 10 * time.Second
	// A large message has to be there after this time, and after that of its bytes at this rate.
	unfinishedStay = 30 * time.Second
	unfinishedRate = 1 << 20 // a second
)

// NewUnfinished returns the budget for what clients have begun to send: each message of more than 128 KiB has its place there, for all that it
// will have. What waits for one is at the client still. 0 is no limit.
func NewUnfinished(total int) *Memory {
	m := NewMemory(total, func(holder string, used, total int) string {
		return fmt.Sprintf("large messages that are on their way take as much memory as they may, %s, and %s of it those from %s", MiB(total), MiB(used), holder)
	})
	m.free, m.within, m.outside = unfinishedFree, unfinishedWithin, true
	return m
}

// BoundUnfinished makes the connections of a server reserve memory for large messages before they are read. gRPC shows nobody a message before it is
// complete, and lets a client send all of it once its length is known. A client that gets no memory in time, or stops sending, loses its connection.
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

// Clone is for gRPC.
func (u *unfinishedBounds) Clone() credentials.TransportCredentials {
	return &unfinishedBounds{u.TransportCredentials.Clone(), u.memory}
}

// arriving is a connection whose large messages have their places in a budget.
type arriving struct {
	net.Conn

	memory *Memory
	holder string
	frames *frames         // is used by who reads
	open   context.Context //nolint:containedctx // it ends with the connection
	end    context.CancelFunc

	mu     sync.Mutex
	places map[uint32]func() // what gives them back, by stream; nil once the connection is closed
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

// Close closes the connection, and gives back what it has.
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

// take waits for a place for a message. A stranger has none: so little is read of one that it would cost nothing to have others find none ([Bounded]).
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

// give gives back the place of the message of a stream, if it has one.
func (a *arriving) give(stream uint32) {
	a.mu.Lock()
	give := a.places[stream]
	delete(a.places, stream)
	a.mu.Unlock()
	if give != nil {
		give()
	}
}
