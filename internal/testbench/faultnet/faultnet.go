// Package faultnet is a TCP proxy that breaks connections, for tests. It understands HTTP/2 frames,
// so a test can break a gRPC stream after any of its messages, or in the middle of one.
package faultnet

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// Fault says how to break one connection. The zero Fault does nothing.
type Fault struct {
	// Up and Down cut the connection after this many DATA frames from the client or the server; 0:
	// never.
	Up, Down int
	// Bytes cuts the connection after this many bytes from the server, even inside a frame; 0:
	// never.
	Bytes int
	// Delay returns how long to hold each frame back, in both directions; nil: not at all.
	Delay func() time.Duration
}

// Proxy forwards connections to a server.
type Proxy struct {
	listener net.Listener
	server   string
	running  sync.WaitGroup
	ctx      context.Context //nolint:containedctx // ends the connections when the proxy closes
	stop     context.CancelFunc

	mu     sync.Mutex
	faults func(n int) Fault
	made   int
	cut    int
}

// Listen starts a proxy to a server, without faults.
func Listen(server string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: l, server: server}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.running.Go(p.accept)
	return p, nil
}

// Addr returns the proxy's address.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Break sets the faults of the next connections, which it counts from 0. Nil ends the faults.
func (p *Proxy) Break(faults func(n int) Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults, p.made, p.cut = faults, 0, 0
}

// Cut returns how many connections the faults have cut since Break.
func (p *Proxy) Cut() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cut
}

// Close closes the proxy and all connections, and waits for them.
func (p *Proxy) Close() {
	p.stop()
	_ = p.listener.Close()
	p.running.Wait()
}

func (p *Proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.running.Go(func() { p.pass(c) })
	}
}

func (p *Proxy) next() (f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.faults != nil {
		f = p.faults(p.made)
	}
	p.made++
	return f
}

// pass forwards one connection. When either side ends, it closes both.
func (p *Proxy) pass(client net.Conn) {
	defer client.Close()
	f := p.next()
	server, err := (&net.Dialer{}).DialContext(p.ctx, "tcp", p.server)
	if err != nil {
		return
	}
	defer server.Close()
	ended := make(chan error, 2)
	var both sync.WaitGroup
	both.Go(func() { ended <- copyUp(server, client, f) })
	both.Go(func() { ended <- copyDown(client, server, f) })
	select {
	case err = <-ended:
	case <-p.ctx.Done():
	}
	if errors.Is(err, errCut) {
		p.mu.Lock()
		p.cut++
		p.mu.Unlock()
	}
	_ = client.Close()
	_ = server.Close()
	both.Wait()
}

// preface is the length of what an HTTP/2 client sends before its first frame.
const preface = len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")

func copyUp(to io.Writer, from io.Reader, f Fault) error {
	if _, err := io.CopyN(to, from, int64(preface)); err != nil {
		return err
	}
	return copyFrames(to, from, f.Up, f.Delay)
}

func copyDown(to io.Writer, from io.Reader, f Fault) error {
	if f.Bytes > 0 {
		to = &limited{to, f.Bytes}
	}
	return copyFrames(to, from, f.Down, f.Delay)
}
