// Package dns is the resolver beside a proxy: it answers for the names of the mesh, and asks others for everything else.
//
// A host of the mesh has the addresses that discovery gave it, and nothing else: what it lacks is answered by "there is none", never
// asked elsewhere, for a public record of another type would lead around the mesh.
package dns

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/pgmesh/pgmesh/mesh-agent/dns/forward"
	"github.com/pgmesh/pgmesh/mesh-agent/dns/names"
	ndsv1 "github.com/pgmesh/pgmesh/proto/istio/networking/nds/v1"
)

// Options say how names are resolved.
type Options struct {
	// Listen has addresses with ports, of this machine.
	Listen []string
	// Proxy is where the machine's own proxy asks. It is told nothing of the mesh: it looks for what is behind a service, and would find itself.
	Proxy string
	// Except are names that are never the mesh's, such as that of discovery: who resolves names has to be found without them.
	Except []string
	// Plain has it listen on port 53 of a loopback address, too: resolv.conf has no ports.
	Plain bool
	// Domain completes short names.
	Domain string
	// TTL is how long clients may remember a name of the mesh.
	TTL time.Duration
	// Upstreams are asked for what the mesh does not know. Without any, those of ResolvConf are.
	Upstreams []string
	// ResolvConf is the file with the machine's resolvers and search domains; it is read again when it changes.
	ResolvConf string
	// AroundStub tells whether systemd-resolved asks us: then its own upstreams are asked, and not its stub. It may be nil.
	AroundStub func() bool
	// Kept is a file for the names, so that they are known at the next start before discovery answers. It may be empty.
	Kept string

	Log     *slog.Logger
	Metrics prometheus.Registerer
}

// Table takes the names of the mesh over. Server is one; who receives the names needs to know no more.
type Table interface {
	Names(table *ndsv1.NameTable)
}

var _ Table = (*Server)(nil)

// Server answers.
type Server struct {
	Options

	forward *forward.Forwarder
	metrics *metrics
	sockets []socket
	proxy   socket // for the machine's own proxy, if there is one
	places  chan struct{}
	turn    atomic.Uint32 // so that addresses take turns in being the first

	current   atomic.Pointer[state]
	table     chan *ndsv1.NameTable // the newest that is not taken over yet
	upstreams []netip.AddrPort      // that were said by flag
	first     chan struct{}         // closed when discovery has said what names there are
	written   *ndsv1.NameTable      // to Kept
}

// state is what answers follow from. It never changes.
type state struct {
	names *names.Index
	table *ndsv1.NameTable
	known bool // discovery has said something
	from  source
}

// The number of questions that are worked on at once, and how much is remembered of others' answers.
const (
	parallel     = 1024
	cacheEntries = 10_000
	cacheBytes   = 8 << 20
)

// Open opens the sockets; Run serves on them.
func Open(o Options) (*Server, error) {
	s := &Server{Options: o, places: make(chan struct{}, parallel), table: make(chan *ndsv1.NameTable, 1), first: make(chan struct{})}
	var err error
	if s.upstreams, err = parseUpstreams(o.Upstreams); err != nil {
		return nil, err
	}
	if s.sockets, err = openSockets("dns-listen", o.Listen); err != nil {
		return nil, err
	}
	if o.Proxy != "" {
		opened, err := openSockets("dns-proxy-listen", []string{o.Proxy})
		if err != nil {
			s.Close()
			return nil, err
		}
		s.proxy = opened[0]
	}
	if o.Plain && !s.Plain().IsValid() {
		socket, err := openPlain()
		if err != nil {
			s.Close()
			return nil, err
		}
		s.sockets = append(s.sockets, socket)
	}
	s.metrics = newMetrics(o.Metrics, s)
	s.forward = forward.New(forward.Options{Log: o.Log, Metrics: o.Metrics, Entries: cacheEntries, Bytes: cacheBytes})
	s.current.Store(&state{names: names.New(nil, names.Options{Domain: o.Domain, Except: o.Except})})
	s.followMachine(true)
	s.loadKept()
	return s, nil
}

func parseUpstreams(texts []string) (out []netip.AddrPort, err error) {
	for _, text := range texts {
		at, err := netip.ParseAddrPort(text)
		if err != nil {
			ip, err := netip.ParseAddr(text)
			if err != nil {
				return nil, fmt.Errorf("--dns-upstream %s: expected the address of a resolver, as 192.0.2.53, 192.0.2.53:5353 or [2001:db8::53]:53", text)
			}
			at = netip.AddrPortFrom(ip, 53)
		}
		out = append(out, at)
	}
	return out, nil
}

// Addresses are where it listens.
func (s *Server) Addresses() []netip.AddrPort {
	out := make([]netip.AddrPort, len(s.sockets))
	for i, socket := range s.sockets {
		out[i] = socket.address
	}
	return out
}

// Plain is an address of loopback where it listens on port 53, if there is one.
func (s *Server) Plain() netip.AddrPort {
	for _, socket := range s.sockets {
		if socket.address.Port() == 53 && socket.address.Addr().IsLoopback() {
			return socket.address
		}
	}
	return netip.AddrPort{}
}

// Names takes a new table over. It returns at once; of several that come quickly the last counts.
func (s *Server) Names(table *ndsv1.NameTable) {
	for {
		select {
		case s.table <- table:
			return
		default:
		}
		select {
		case <-s.table: // nobody has taken the one before
		default:
		}
	}
}

// Known tells whether discovery has said what names there are, and how many.
func (s *Server) Known() (n int, known bool) {
	now := s.current.Load()
	return now.names.Len(), now.known
}

// First is closed when discovery has said what names there are.
func (s *Server) First() <-chan struct{} { return s.first }

// Upstreams are who is asked for what the mesh does not know.
func (s *Server) Upstreams() []netip.AddrPort { return s.forward.Upstreams() }

// Completions are the domains that short names of the mesh lack.
func (s *Server) Completions() []string { return s.current.Load().names.Domains() }

// Hosts are the names of the mesh.
func (s *Server) Hosts() []string { return s.current.Load().names.Hosts() }

// Run answers until the context ends.
func (s *Server) Run(ctx context.Context) error {
	defer s.forward.Wait()
	group, ctx := errgroup.WithContext(ctx)
	for _, socket := range s.all() {
		for _, server := range socket.servers(s, socket == s.proxy) {
			group.Go(func() error {
				if err := serve(ctx, server); err != nil {
					return fmt.Errorf("serve DNS on %s: %w", socket.address, err)
				}
				return nil
			})
		}
	}
	changed := make(chan struct{}, 1)
	group.Go(func() error { return s.follow(ctx, changed) })
	group.Go(func() error { return s.findLoops(ctx, changed) })
	return group.Wait()
}

// all are the sockets, that of the proxy too.
func (s *Server) all() []socket {
	if s.proxy.udp == nil {
		return s.sockets
	}
	return append(slices.Clone(s.sockets), s.proxy)
}

// ProxyAddress is where the machine's own proxy asks, if it does.
func (s *Server) ProxyAddress() netip.AddrPort { return s.proxy.address }

// Close closes what Open opened, when there is no Run.
func (s *Server) Close() {
	for _, socket := range s.all() {
		socket.close()
	}
}

// follow takes over tables of names, and what changes on the machine.
func (s *Server) follow(ctx context.Context, changed chan<- struct{}) error {
	tick := time.NewTicker(machineEvery)
	defer tick.Stop()
	for {
		select {
		case table := <-s.table:
			s.take(table)
		case <-tick.C:
			s.keep()
			if s.followMachine(false) {
				select {
				case changed <- struct{}{}:
				default: // it will look at these
				}
			}
		case <-ctx.Done():
			s.keep()
			return nil
		}
	}
}

// findLoops looks for resolvers that ask us in turn, for anybody may have them do so at any time.
func (s *Server) findLoops(ctx context.Context, changed <-chan struct{}) error {
	tick := time.NewTicker(loopsEvery)
	defer tick.Stop()
	for {
		s.forward.FindLoops(ctx)
		select {
		case <-changed:
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// take makes an index of a table of names.
func (s *Server) take(table *ndsv1.NameTable) {
	before := s.current.Load()
	next := *before
	next.table, next.known = table, true
	next.names = names.New(table, s.asked(before.from))
	s.current.Store(&next)
	if out := next.names.LeftOut(); len(out) > 0 && !slices.Equal(out, before.names.LeftOut()) {
		s.Log.Warn("the mesh has hosts that are no names of DNS, or have no address: nobody can ask for them", "hosts", out[:min(len(out), 10)], "count", len(out))
	}
	if !before.known {
		s.Log.Info("answering for the names of the mesh", "names", next.names.Len())
		close(s.first)
	}
}

// mayAsk lets this machine ask, and neighbours of an address that was chosen; else it would serve the whole world.
func mayAsk(from net.Addr, at netip.AddrPort) bool {
	var ip netip.Addr
	switch a := from.(type) {
	case *net.UDPAddr:
		ip = a.AddrPort().Addr()
	case *net.TCPAddr:
		ip = a.AddrPort().Addr()
	}
	ip = ip.Unmap().WithZone("")
	return ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast() || ip == at.Addr() || shared.Contains(ip)
}

// shared is RFC 6598's range, which clouds use as they use private ones.
var shared = netip.MustParsePrefix("100.64.0.0/10")
