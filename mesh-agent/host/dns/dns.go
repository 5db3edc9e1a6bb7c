// Package dns is the resolver beside a proxy. It answers for the names of the mesh and forwards
// everything else.
//
// A host of the mesh has the addresses that discovery gave it and no others. Queries for what it
// lacks get an empty answer and are not forwarded, because a public record of another type would
// lead around the mesh.
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

	"github.com/pgmesh/pgmesh/mesh-agent/host/dns/forward"
	"github.com/pgmesh/pgmesh/mesh-agent/host/dns/names"
	ndsv1 "github.com/pgmesh/pgmesh/proto/istio/networking/nds/v1"
)

// Options configure a Server.
type Options struct {
	// Listen lists addresses of this machine, with ports.
	Listen []string
	// Proxy is the address that the machine's own proxy asks. There, names of the mesh are not
	// answered: the proxy looks for what is behind a service, and would find itself.
	Proxy string
	// Except lists names that are never the mesh's, such as discovery's: it must be found before it
	// can send any names.
	Except []string
	// Port53 also listens on port 53 of a loopback address, because resolv.conf has no ports.
	Port53 bool
	// Domain completes short names.
	Domain string
	// TTL is how long clients may cache a name of the mesh.
	TTL time.Duration
	// Upstreams answer for other names. If empty, those of ResolvConf do.
	Upstreams []string
	// ResolvConf is the file with the machine's resolvers and search domains; it is reread when it
	// changes.
	ResolvConf string
	// BypassStub reports whether systemd-resolved asks this resolver; then its upstreams are asked
	// instead of its stub. It may be nil.
	BypassStub func() bool
	// NamesFile stores the names, so that the next start knows them before discovery answers. It
	// may be empty.
	NamesFile string

	Log     *slog.Logger
	Metrics prometheus.Registerer
}

// Table receives the mesh's names. Server implements it; who has the names needs to know no more of
// it.
type Table interface {
	Names(table *ndsv1.NameTable)
}

var _ Table = (*Server)(nil)

// Server answers DNS queries.
type Server struct {
	Options

	forward  *forward.Forwarder
	metrics  *metrics
	sockets  []socket
	proxy    socket // for the machine's own proxy; zero if there is none
	slots    chan struct{}
	rotation atomic.Uint32 // rotates the addresses of answers

	current    atomic.Pointer[state]
	table      chan *ndsv1.NameTable // the newest table that follow has not applied yet
	upstreams  []netip.AddrPort      // from Options.Upstreams
	firstTable chan struct{}         // closed by the first table
	savedTable *ndsv1.NameTable      // the table last saved to NamesFile
}

// state is everything that answers depend on. It is immutable.
type state struct {
	names   *names.Index
	table   *ndsv1.NameTable
	known   bool // a table has arrived from discovery
	machine machineConfig
}

// maxQueries bounds concurrent queries; the others bound the cache of upstreams' answers.
const (
	maxQueries   = 1024
	cacheEntries = 10_000
	cacheBytes   = 8 << 20
)

// Open opens the sockets and loads saved names; Run serves.
func Open(o Options) (*Server, error) {
	s := &Server{Options: o, slots: make(chan struct{}, maxQueries), table: make(chan *ndsv1.NameTable, 1), firstTable: make(chan struct{})}
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
	if o.Port53 && !s.Port53Address().IsValid() {
		socket, err := openPort53()
		if err != nil {
			s.Close()
			return nil, err
		}
		s.sockets = append(s.sockets, socket)
	}
	s.metrics = newMetrics(o.Metrics, s)
	s.forward = forward.New(forward.Options{Log: o.Log, Metrics: o.Metrics, Entries: cacheEntries, Bytes: cacheBytes})
	s.current.Store(&state{names: names.New(nil, names.Options{Domain: o.Domain, Except: o.Except})})
	s.refreshMachine(true)
	s.loadNames()
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

// Addresses returns the addresses it listens on.
func (s *Server) Addresses() []netip.AddrPort {
	out := make([]netip.AddrPort, len(s.sockets))
	for i, socket := range s.sockets {
		out[i] = socket.address
	}
	return out
}

// Port53Address returns a loopback address on which it listens on port 53, or the zero value.
func (s *Server) Port53Address() netip.AddrPort {
	for _, socket := range s.sockets {
		if socket.address.Port() == 53 && socket.address.Addr().IsLoopback() {
			return socket.address
		}
	}
	return netip.AddrPort{}
}

// Names applies a new table in the background. If several come quickly, the last one counts.
func (s *Server) Names(table *ndsv1.NameTable) {
	for {
		select {
		case s.table <- table:
			return
		default:
		}
		select {
		case <-s.table: // drop the one that was not applied yet
		default:
		}
	}
}

// Known returns the number of names, and whether discovery has sent them.
func (s *Server) Known() (n int, known bool) {
	now := s.current.Load()
	return now.names.Len(), now.known
}

// FirstTable is closed when discovery has sent the first table.
func (s *Server) FirstTable() <-chan struct{} { return s.firstTable }

// Upstreams returns the resolvers that answer for other names.
func (s *Server) Upstreams() []netip.AddrPort { return s.forward.Upstreams() }

// Completions returns the domains that complete short names.
func (s *Server) Completions() []string { return s.current.Load().names.Domains() }

// Hosts returns the names of the mesh.
func (s *Server) Hosts() []string { return s.current.Load().names.Hosts() }

// Run serves until the context ends.
func (s *Server) Run(ctx context.Context) error {
	defer s.forward.Wait()
	group, ctx := errgroup.WithContext(ctx)
	for _, socket := range s.allSockets() {
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

// allSockets returns all sockets, the proxy's included.
func (s *Server) allSockets() []socket {
	if s.proxy.udp == nil {
		return s.sockets
	}
	return append(slices.Clone(s.sockets), s.proxy)
}

// ProxyAddress is the address for the machine's own proxy, or the zero value.
func (s *Server) ProxyAddress() netip.AddrPort { return s.proxy.address }

// Close closes the sockets of a Server that Run was not called on.
func (s *Server) Close() {
	for _, socket := range s.allSockets() {
		socket.close()
	}
}

// follow applies name tables and changes of the machine's configuration.
func (s *Server) follow(ctx context.Context, changed chan<- struct{}) error {
	tick := time.NewTicker(machineInterval)
	defer tick.Stop()
	for {
		select {
		case table := <-s.table:
			s.setTable(table)
		case <-tick.C:
			s.saveNames()
			if s.refreshMachine(false) {
				select {
				case changed <- struct{}{}:
				default: // a check is due already
				}
			}
		case <-ctx.Done():
			s.saveNames()
			return nil
		}
	}
}

// findLoops looks for upstreams that ask this resolver in turn. It repeats that, because their
// configuration may change at any time.
func (s *Server) findLoops(ctx context.Context, changed <-chan struct{}) error {
	tick := time.NewTicker(loopCheckInterval)
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

// setTable applies a name table.
func (s *Server) setTable(table *ndsv1.NameTable) {
	before := s.current.Load()
	next := *before
	next.table, next.known = table, true
	next.names = names.New(table, s.nameOptions(before.machine))
	s.current.Store(&next)
	if out := next.names.LeftOut(); len(out) > 0 && !slices.Equal(out, before.names.LeftOut()) {
		s.Log.Warn("the mesh has hosts that are no names of DNS, or have no address: nobody can ask for them", "hosts", out[:min(len(out), 10)], "count", len(out))
	}
	if !before.known {
		s.Log.Info("answering for the names of the mesh", "names", next.names.Len())
		close(s.firstTable)
	}
}

// isAllowed reports whether a client may ask: from this machine, or from a private network.
// Otherwise the agent could be an open resolver.
func isAllowed(from net.Addr, at netip.AddrPort) bool {
	var ip netip.Addr
	switch a := from.(type) {
	case *net.UDPAddr:
		ip = a.AddrPort().Addr()
	case *net.TCPAddr:
		ip = a.AddrPort().Addr()
	}
	ip = ip.Unmap().WithZone("")
	return ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast() || ip == at.Addr() || sharedRange.Contains(ip)
}

// sharedRange is RFC 6598's range, which clouds use like private ones.
var sharedRange = netip.MustParsePrefix("100.64.0.0/10")
