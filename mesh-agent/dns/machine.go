package dns

import (
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/pgmesh/pgmesh/mesh-agent/dns/names"
	"github.com/pgmesh/pgmesh/mesh-agent/dns/resolvconf"
)

const (
	// machineEvery is how long a change of the machine's resolvers may go unnoticed.
	machineEvery = 2 * time.Second
	loopsEvery   = time.Minute
)

// source is what the machine says about names.
type source struct {
	upstreams []netip.AddrPort
	search    []string
}

// asked is from where names are asked.
func (s *Server) asked(from source) names.Options {
	return names.Options{Domain: s.Domain, Search: from.search, Except: s.Except}
}

// followMachine takes over whom the machine asks, and tells whether that is news.
func (s *Server) followMachine(first bool) bool {
	now, err := s.readMachine()
	if err != nil {
		if first {
			s.Log.Warn("cannot read whom this machine asks for names; nothing but the mesh's can be answered until it can, or --dns-upstream names somebody", "error", err)
		}
		return false
	}
	before := s.current.Load()
	if !first && slices.Equal(before.from.upstreams, now.upstreams) && slices.Equal(before.from.search, now.search) {
		return false
	}
	next := *before
	next.from = now
	next.names = names.New(before.table, s.asked(now))
	s.current.Store(&next)
	s.forward.Use(now.upstreams)
	s.Log.Info("asking other resolvers for what the mesh does not know", "upstreams", now.upstreams, "search", now.search)
	return true
}

// readMachine finds out whom to ask. It never names ourselves.
func (s *Server) readMachine() (source, error) {
	content, err := os.ReadFile(s.ResolvConf)
	if err != nil && len(s.upstreams) == 0 {
		return source{}, err
	}
	config := resolvconf.Parse(content)
	out := source{search: config.Search, upstreams: s.upstreams}
	if len(s.upstreams) > 0 {
		return out, nil
	}
	servers := config.Servers
	around := s.AroundStub != nil && s.AroundStub()
	if around && slices.ContainsFunc(servers, resolvconf.Stub) {
		if content, err = os.ReadFile(stubPath(s.ResolvConf)); err != nil {
			return source{}, err
		}
		servers = resolvconf.Parse(content).Servers
	}
	for _, ip := range servers {
		at := netip.AddrPortFrom(ip, 53)
		if !slices.Contains(s.Addresses(), at) && (!around || !resolvconf.Stub(ip)) {
			out.upstreams = append(out.upstreams, at)
		}
	}
	return out, nil
}

// stubPath is where systemd-resolved writes its own upstreams; a test with a file of its own has that beside it.
func stubPath(path string) string {
	if path == resolvconf.Path {
		return resolvconf.StubPath
	}
	return path + ".upstream"
}
