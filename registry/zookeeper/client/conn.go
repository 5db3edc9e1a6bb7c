// Package client asks ZooKeeper, by the part of its protocol that a reader needs.
//
// A [Conn] is one session over one connection, and both end together. Somebody who only reads keeps
// nothing in a session but watches. To carry them over to another connection would save reading again
// what was watched, and is how changes get lost: what happened in between has to be told from the last
// transaction that the client has seen, which an answer on the new connection moves on. So whoever
// loses a Conn opens another one and reads everything.
//
// docs/decisions/0055-zookeeper-is-asked-by-our-own-client.md says why it is not the client that others
// have written for Go. Tests have that as the other side.
package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Event is something that has happened to a node that is watched.
type Event struct {
	Path string
	// Sort says what.
	Sort Sort
}

// Sort is a sort of event.
type Sort int32

// The sorts of events.
const (
	Created  Sort = 1
	Deleted  Sort = 2
	Changed  Sort = 3
	Children Sort = 4 // it has other ones
)

// Settings say how ZooKeeper is asked.
type Settings struct {
	Servers []string // host:port
	First   int      // which of them is asked first, counted on without an end
	// Dial connects to a server.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Patience is how long nothing may come from the server. Pings keep an idle connection busy.
	Patience time.Duration
	// Credentials are "user:password" for digest authentication. They may be empty.
	Credentials string
	// Happened is called with each event, before any answer that shows what has happened. It must not
	// wait.
	Happened func(Event)
}

// Conn is a session.
type Conn struct {
	Settings

	// Server is the one of the servers that gave the session.
	Server string

	conn    net.Conn
	in      *bufio.Reader
	writing sync.Mutex
	out     *bufio.Writer

	xid      int32        // of the last request; only one goroutine asks
	pending  chan *call   // what was asked and is not answered yet, in order
	answered atomic.Int64 // how many answers there were
	newest   atomic.Int64 // the newest transaction that an answer knew

	end     sync.Once
	ended   chan struct{}
	why     error // after ended is closed
	running sync.WaitGroup
}

// together is how many questions are sent at once. Twice as many are on their way: ZooKeeper takes a
// thousand from all clients together before it lets them wait.
const together = 128

// call is a question that waits for its answer.
type call struct {
	xid  int32
	take func(err error, body *answer) error
	done chan struct{} // closed afterwards; nil if nobody waits
}

func start(s Settings, server string, conn net.Conn) *Conn {
	c := &Conn{
		Settings: s, Server: server, conn: conn, in: bufio.NewReaderSize(conn, 64<<10), out: bufio.NewWriterSize(conn, 64<<10),
		pending: make(chan *call, 2*together), ended: make(chan struct{}),
	}
	c.running.Go(func() { c.fail(c.read()) })
	c.running.Go(func() { c.fail(c.ping()) })
	return c
}

// fail ends the session. The first reason counts.
func (c *Conn) fail(err error) {
	c.end.Do(func() {
		c.why = err
		close(c.ended)
		c.conn.Close()
	})
}

// Ended is closed when the session has ended, and Why then says why.
func (c *Conn) Ended() <-chan struct{} { return c.ended }

// Why says why the session has ended.
func (c *Conn) Why() error {
	<-c.ended
	return c.why
}

// Newest is the newest transaction that the server was seen to know. Transactions of one ZooKeeper are
// numbered in their order.
func (c *Conn) Newest() int64 { return c.newest.Load() }

var errClosed = errors.New("the session was closed")

// Close ends the session, of which ZooKeeper is told.
func (c *Conn) Close() {
	select {
	case <-c.ended:
	default:
		_ = c.send(begin(0, operationClose), true) // ZooKeeper would find out by itself
	}
	c.fail(errClosed)
	c.running.Wait()
}

// send writes a request, and, if asked to, all that was written.
func (c *Conn) send(r request, flush bool) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	_ = c.conn.SetWriteDeadline(time.Now().Add(c.Patience))
	_, err := c.out.Write(r.packet())
	if err == nil && flush {
		err = c.out.Flush()
	}
	return inWords(err, c.Patience)
}

// ping keeps the session alive, and has ZooKeeper answer.
func (c *Conn) ping() error {
	ticker := time.NewTicker(c.Patience / 3)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if err := c.send(begin(xidPing, operationPing), true); err != nil {
				return err
			}
		case <-c.ended:
			return errClosed
		}
	}
}

// read takes what comes until something is wrong.
func (c *Conn) read() error {
	buffer := make([]byte, 4<<10)
	for {
		size, err := c.size()
		if err != nil {
			return err
		}
		kept := min(size, MostBytes)
		if kept > cap(buffer) {
			buffer = make([]byte, kept)
		}
		body := buffer[:kept]
		if size > MostBytes {
			body = buffer[:headerBytes]
		}
		if _, err = io.ReadFull(c.in, body); err == nil && size > MostBytes {
			_, err = io.CopyN(io.Discard, c.in, int64(size-headerBytes))
		}
		if err != nil {
			return inWords(err, c.Patience)
		}
		if err := c.deal(body, size > MostBytes); err != nil {
			return err
		}
		if cap(buffer) > largeBuffer {
			buffer = make([]byte, 4<<10)
		}
	}
}

const (
	headerBytes = 16
	largeBuffer = 1 << 20 // is not kept
)

// size waits for the next packet, and gives it time to come.
func (c *Conn) size() (int, error) {
	_ = c.conn.SetReadDeadline(time.Now().Add(c.Patience))
	var head [4]byte
	if _, err := io.ReadFull(c.in, head[:]); err != nil {
		return 0, inWords(err, c.Patience)
	}
	a := answer{rest: head[:]}
	size := a.int()
	if size < headerBytes {
		return 0, errShort
	}
	_ = c.conn.SetReadDeadline(time.Now().Add(c.Patience))
	return int(size), nil
}

// deal hands a packet to whom it is for.
func (c *Conn) deal(packet []byte, tooLarge bool) error {
	a := &answer{rest: packet}
	xid, transaction, code := a.int(), a.long(), Code(a.int())
	if a.err == nil {
		c.newest.Store(max(c.newest.Load(), transaction)) // events have none: -1
	}
	switch xid {
	case xidPing:
		return nil
	case xidEvent:
		e := Event{Sort: Sort(a.int())}
		a.int() // the state of the session, which is what this connection says
		e.Path = string(a.bytes())
		if a.err == nil && e.Sort > 0 {
			c.Happened(e)
		}
		return a.err
	case xidAuth:
		if code != 0 {
			return fmt.Errorf("the credentials in digest-file are refused: %w", code)
		}
		return nil
	}
	return c.answer(xid, code, a, tooLarge)
}

// answer gives the answer to the question that waits for one the longest: they come in order.
func (c *Conn) answer(xid int32, code Code, a *answer, tooLarge bool) error {
	var asked *call
	select {
	case asked = <-c.pending:
	default:
	}
	if asked == nil || asked.xid != xid {
		return errors.New("there is an answer to what was not asked: what answers is no ZooKeeper, or the way to it is broken")
	}
	var err error
	switch {
	case tooLarge:
		err = ErrTooLarge
	case code != 0 && !code.mine():
		return code
	case code != 0:
		err = code
	}
	if err := asked.take(err, a); err != nil {
		return err
	}
	c.answered.Add(1)
	if asked.done != nil {
		close(asked.done)
	}
	return nil
}

// ErrEnded says that the server does not want to go on.
var ErrEnded = errors.New("ZooKeeper has ended the connection")

// inWords says what an error of a connection means.
func inWords(err error, patience time.Duration) error {
	var timeout net.Error
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return ErrEnded
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Errorf("ZooKeeper did not answer within %s", patience)
	}
	return err
}
