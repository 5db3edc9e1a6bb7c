// Package gate is a TCP proxy on the way to a server, which a test closes and opens, for tests of what
// programs do when a server is away, or hangs.
package gate

import (
	"net"
	"sync"
	"testing"
)

// Gate forwards connections while it is open.
type Gate struct {
	listener net.Listener
	to       string

	mu          sync.Mutex
	shut        bool
	held        chan struct{} // closed while bytes may pass
	severed     bool          // held is for both directions
	connections map[net.Conn]bool
	running     sync.WaitGroup
}

// Open returns an open gate to a server. It ends with the test.
func Open(t testing.TB, to string) *Gate {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &Gate{listener: listener, to: to, held: make(chan struct{}), connections: map[net.Conn]bool{}}
	close(g.held)
	g.running.Go(g.accept)
	t.Cleanup(func() {
		listener.Close()
		g.Release()
		g.Shut()
		g.running.Wait()
	})
	return g
}

// Address is where clients connect to.
func (g *Gate) Address() string { return g.listener.Addr().String() }

// Shut breaks all connections, and refuses others.
func (g *Gate) Shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = true
	for c := range g.connections {
		c.Close()
	}
}

// Unshut lets connections pass again.
func (g *Gate) Unshut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = false
}

// Hold keeps all connections, and lets no byte of an answer pass.
func (g *Gate) Hold() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held = make(chan struct{})
}

// Sever lets nothing pass in either direction, not even that a connection ends, as where a cable is cut.
// New connections are refused.
func (g *Gate) Sever() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.severed, g.held = true, make(chan struct{})
}

// Release ends Hold and Sever.
func (g *Gate) Release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.severed = false
	select {
	case <-g.held:
	default:
		close(g.held)
	}
}

func (g *Gate) accept() {
	for {
		client, err := g.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", g.to)
		if err != nil || !g.admit(client, server) {
			client.Close()
			if err == nil {
				server.Close()
			}
			continue
		}
		g.running.Go(func() { g.pass(server, client, false) })
		g.running.Go(func() { g.pass(client, server, true) })
	}
}

func (g *Gate) admit(both ...net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut || g.severed {
		return false
	}
	for _, c := range both {
		g.connections[c] = true
	}
	return true
}

// pass forwards one direction. When one side ends, the other does.
func (g *Gate) pass(to, from net.Conn, answers bool) {
	defer func() {
		to.Close()
		from.Close()
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.connections, from)
	}()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		g.wait(answers)
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// wait waits while what was read must not pass.
func (g *Gate) wait(answers bool) {
	g.mu.Lock()
	held := g.held
	passes := !answers && !g.severed
	g.mu.Unlock()
	if !passes {
		<-held
	}
}
