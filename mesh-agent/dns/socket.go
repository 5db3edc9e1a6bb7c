package dns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/miekg/dns"

	"github.com/pgmesh/pgmesh/internal/panics"
	"github.com/pgmesh/pgmesh/mesh-agent/dns/forward"
)

// socket is one address, by UDP and TCP.
type socket struct {
	address netip.AddrPort
	udp     net.PacketConn
	tcp     net.Listener
}

func openSockets(flag string, addresses []string) (out []socket, err error) {
	for _, address := range addresses {
		s, err := openSocket(address)
		if err != nil {
			for _, opened := range out {
				opened.close()
			}
			return nil, fmt.Errorf("--%s %s: %w", flag, address, err)
		}
		out = append(out, s)
	}
	return out, nil
}

// openSocket takes the same port for both.
func openSocket(address string) (s socket, err error) {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return s, errors.New("expected an address of this machine with a port, as 127.0.0.1:15053 or [::1]:15053")
	}
	if at.Addr().IsUnspecified() {
		return s, errors.New("a resolver on every address serves the whole world: name the addresses it is for, as 127.0.0.1:15053 and that of a bridge of containers")
	}
	for range 10 { // port 0 is any that both have free
		if s, err = openBoth(at); err == nil || at.Port() != 0 {
			break
		}
	}
	return s, explain(err)
}

func openBoth(at netip.AddrPort) (s socket, err error) {
	if s.udp, err = net.ListenPacket("udp", at.String()); err != nil {
		return s, err
	}
	s.address = s.udp.LocalAddr().(*net.UDPAddr).AddrPort()
	if s.tcp, err = net.Listen("tcp", s.address.String()); err != nil {
		s.udp.Close()
	}
	return s, err
}

// plain are addresses that a resolver on port 53 may have: a machine may have another one on the first.
var plain = []string{"127.0.0.1:53", "127.0.0.55:53", "127.53.53.53:53"}

// PlainAddresses are where a resolver may be that has to be on port 53, with ports.
func PlainAddresses() []string { return slices.Clone(plain) }

func openPlain() (s socket, err error) {
	for _, address := range plain {
		if s, err = openSocket(address); err == nil || !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	if err != nil {
		return s, fmt.Errorf("programs look for resolvers on port 53, and it cannot be had on %s: %w", strings.Join(plain, ", "), err)
	}
	return s, nil
}

func explain(err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("another program listens there; stop it, or choose another address: %w", err)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("only root, and who has the capability CAP_NET_BIND_SERVICE, may listen on ports below 1024: give the agent that capability "+
			"(AmbientCapabilities= in its unit), or choose a higher port: %w", err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("this machine does not have that address (now): %w", err)
	default:
		return err
	}
}

func (s socket) close() {
	s.udp.Close()
	s.tcp.Close()
}

const (
	// connections over TCP that one address may have, and how long one may be silent.
	connections = 128
	silence     = 8 * time.Second
)

// servers answer on it. The machine's own proxy is told nothing of the mesh.
func (s socket) servers(by *Server, proxy bool) []*dns.Server {
	handler := dns.HandlerFunc(func(w dns.ResponseWriter, m *dns.Msg) {
		if err := panics.Try("question", func() error { by.handle(w, m, asker{s.address, proxy}); return nil }); err != nil {
			dns.HandleFailed(w, m)
		}
	})
	return []*dns.Server{
		{PacketConn: s.udp, Handler: handler, UDPSize: forward.UDPSize, MsgAcceptFunc: accept},
		{Listener: newLimited(s.tcp, connections), Handler: handler, IdleTimeout: func() time.Duration { return silence }, MsgAcceptFunc: accept},
	}
}

// accept looks at the head of a message. What is itself an answer is dropped, or two resolvers might talk to each other for ever.
func accept(h dns.Header) dns.MsgAcceptAction {
	const response = 1 << 15
	switch {
	case h.Bits&response != 0:
		return dns.MsgIgnore
	case int(h.Bits>>11)&0xF != dns.OpcodeQuery:
		return dns.MsgRejectNotImplemented
	case h.Qdcount != 1, h.Ancount > 1, h.Nscount > 1, h.Arcount > 3:
		return dns.MsgReject
	default:
		return dns.MsgAccept
	}
}

// serve runs one server until the context ends.
func serve(ctx context.Context, server *dns.Server) error {
	started := make(chan struct{})
	server.NotifyStartedFunc = func() { close(started) }
	ended := make(chan error, 1)
	go func() { ended <- server.ActivateAndServe() }()
	select {
	case err := <-ended:
		return err
	case <-started:
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second) // for answers that are under way
	defer cancel()
	_ = server.ShutdownContext(ctx)
	return <-ended
}

// limited accepts so many connections and no more.
type limited struct {
	net.Listener

	places chan struct{}
}

func newLimited(l net.Listener, n int) net.Listener { return limited{l, make(chan struct{}, n)} }

// Accept closes connections that there is no place for: who waits unheard would wait for its timeout.
func (l limited) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.places <- struct{}{}:
			return &placed{Conn: conn, leave: func() { <-l.places }}, nil
		default:
			conn.Close()
		}
	}
}

// placed is a connection that gives its place back.
type placed struct {
	net.Conn

	once  sync.Once
	leave func()
}

// Close may be called more than once.
func (p *placed) Close() error {
	p.once.Do(p.leave)
	return p.Conn.Close()
}
