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

	"github.com/pgmesh/pgmesh/internal/kit/panics"
	"github.com/pgmesh/pgmesh/mesh-agent/host/dns/forward"
)

// socket is one address, over UDP and TCP.
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

// openSocket listens on the same port over UDP and TCP.
func openSocket(address string) (s socket, err error) {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return s, errors.New("expected an address of this machine with a port, as 127.0.0.1:15053 or [::1]:15053")
	}
	if at.Addr().IsUnspecified() {
		return s, errors.New("a resolver on every address serves the whole world: name the addresses it is for, as 127.0.0.1:15053 and that of a bridge of containers")
	}
	for range 10 { // for port 0, retry until a port is free for both
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

// port53 lists the addresses to try for port 53: another resolver may have the first.
var port53 = []string{"127.0.0.1:53", "127.0.0.55:53", "127.53.53.53:53"}

// Port53Addresses returns the addresses that a resolver on port 53 may have.
func Port53Addresses() []string { return slices.Clone(port53) }

func openPort53() (s socket, err error) {
	for _, address := range port53 {
		if s, err = openSocket(address); err == nil || !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	if err != nil {
		return s, fmt.Errorf("programs look for resolvers on port 53, and it cannot be had on %s: %w", strings.Join(port53, ", "), err)
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
	// Limits for TCP: connections per address, and how long one may be idle.
	maxTCPConnections = 128
	idleTimeout       = 8 * time.Second
)

// servers returns the DNS servers of a socket. With proxy set, they answer for no names of the
// mesh.
func (s socket) servers(by *Server, proxy bool) []*dns.Server {
	handler := dns.HandlerFunc(func(w dns.ResponseWriter, m *dns.Msg) {
		if err := panics.Try("question", func() error { by.handle(w, m, endpoint{s.address, proxy}); return nil }); err != nil {
			dns.HandleFailed(w, m)
		}
	})
	return []*dns.Server{
		{PacketConn: s.udp, Handler: handler, UDPSize: forward.UDPSize, MsgAcceptFunc: accept},
		{Listener: newLimitListener(s.tcp, maxTCPConnections), Handler: handler, IdleTimeout: func() time.Duration { return idleTimeout }, MsgAcceptFunc: accept},
	}
}

// accept checks a message's header. Responses are dropped, or two resolvers could talk to each
// other forever.
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
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second) // for answers under way
	defer cancel()
	_ = server.ShutdownContext(ctx)
	return <-ended
}

// limitListener bounds the number of open connections.
type limitListener struct {
	net.Listener

	slots chan struct{}
}

func newLimitListener(l net.Listener, n int) net.Listener {
	return limitListener{l, make(chan struct{}, n)}
}

// Accept closes connections over the limit at once: left unaccepted, their clients would wait for a
// timeout.
func (l limitListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.slots <- struct{}{}:
			return &limitedConn{Conn: conn, release: func() { <-l.slots }}, nil
		default:
			conn.Close()
		}
	}
}

// limitedConn releases its slot when it is closed.
type limitedConn struct {
	net.Conn

	once    sync.Once
	release func()
}

// Close may be called more than once.
func (p *limitedConn) Close() error {
	p.once.Do(p.release)
	return p.Conn.Close()
}
