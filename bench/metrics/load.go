package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/wait"
)

// target is what clients ask.
type target struct {
	address string
	host    string
	tls     *tls.Config // nil for plaintext
}

// client asks one request after the other over one connection.
type client struct {
	net.Conn

	in      *bufio.Reader
	request []byte
}

// askTimeout bounds a request.
const askTimeout = 10 * time.Second

func (t target) dial(ctx context.Context) (*client, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", t.address)
	if err != nil {
		return nil, err
	}
	if t.tls != nil {
		conn = tls.Client(conn, t.tls)
	}
	request := fmt.Sprintf("GET / HTTP/1.1\r\nhost: %s\r\nuser-agent: bench\r\naccept: */*\r\n\r\n", t.host)
	return &client{conn, bufio.NewReaderSize(conn, 4<<10), []byte(request)}, nil
}

// ask sends a request and reads its answer.
func (c *client) ask() error {
	if err := c.SetDeadline(time.Now().Add(askTimeout)); err != nil {
		return err
	}
	if _, err := c.Write(c.request); err != nil {
		return err
	}
	length := 0
	first, err := head(c.in, func(line []byte) {
		if value, is := bytes.CutPrefix(line, []byte("content-length: ")); is {
			length, _ = strconv.Atoi(string(value))
		}
	})
	if err != nil {
		return fmt.Errorf("read an answer: %w", err)
	}
	if first != "HTTP/1.1 200 OK" {
		return fmt.Errorf("the answer is %q", first)
	}
	_, err = c.in.Discard(length)
	return err
}

// once asks a single request over a connection of its own.
func (t target) once(ctx context.Context) error {
	c, err := t.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	return c.ask()
}

// load is a number of clients that ask at the same time.
type load []*client

func (t target) load(ctx context.Context, clients int) (l load, err error) {
	for range clients {
		c, err := t.dial(ctx)
		if err != nil {
			l.close()
			return nil, err
		}
		l = append(l, c)
	}
	return l, nil
}

func (l load) close() {
	for _, c := range l {
		c.Close()
	}
}

// answered is how long each answer took, the shortest first.
type answered struct {
	took []time.Duration
	wall time.Duration
}

func (a answered) rate() float64 { return float64(len(a.took)) / a.wall.Seconds() }

// ask asks for a while: at a rate, or with 0 as fast as there are answers.
func (l load) ask(ctx context.Context, lasting time.Duration, rate int) (a answered, err error) {
	var (
		group  sync.WaitGroup
		took   = make([][]time.Duration, len(l))
		failed = make([]error, len(l))
		start  = time.Now()
	)
	for i, c := range l {
		group.Go(func() {
			if rate == 0 {
				took[i], failed[i] = c.eagerly(ctx, start.Add(lasting))
				return
			}
			every := time.Duration(len(l)) * time.Second / time.Duration(rate)
			took[i], failed[i] = c.paced(ctx, start.Add(every*time.Duration(i)/time.Duration(len(l))), start.Add(lasting), every)
		})
	}
	group.Wait()
	a = answered{slices.Concat(took...), time.Since(start)}
	slices.Sort(a.took)
	return a, errors.Join(failed...)
}

func (c *client) eagerly(ctx context.Context, end time.Time) (took []time.Duration, err error) {
	for begun := time.Now(); begun.Before(end); {
		if err := c.ask(); err != nil {
			return took, err
		}
		now := time.Now()
		took, begun = append(took, now.Sub(begun)), now
	}
	return took, ctx.Err()
}

// paced asks at times that were set before. A request that has to wait for the one before it counts
// from when it was due: otherwise what is slow would be asked less, and look fast. One that the
// clock woke too late counts from then: that is this program's own delay.
func (c *client) paced(ctx context.Context, due, end time.Time, every time.Duration) (took []time.Duration, err error) {
	for ; due.Before(end); due = due.Add(every) {
		begun := due
		if ahead := time.Until(due); ahead > 0 {
			if !wait.For(ctx, ahead) {
				return took, ctx.Err()
			}
			begun = time.Now()
		}
		if err := c.ask(); err != nil {
			return took, err
		}
		took = append(took, time.Since(begun))
	}
	return took, nil
}
