package dns

import (
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/pgmesh/pgmesh/mesh-agent/host/dns/names"
	"github.com/pgmesh/pgmesh/mesh-agent/host/dns/resolvconf"
)

const (
	// machineInterval is how often the machine's configuration is checked.
	machineInterval = 2 * time.Second
	// loopCheckInterval is how often loops are looked for: another resolver may be pointed at this
	// one at any time.
	loopCheckInterval = time.Minute
)

// machineConfig is the part of resolv.conf that matters here.
type machineConfig struct {
	upstreams []netip.AddrPort
	search    []string
}

// nameOptions returns the options for an index of names.
func (s *Server) nameOptions(from machineConfig) names.Options {
	return names.Options{Domain: s.Domain, Search: from.search, Except: s.Except}
}

// refreshMachine applies the machine's configuration and reports whether it changed.
func (s *Server) refreshMachine(first bool) bool {
	now, err := s.readMachine()
	if err != nil {
		if first {
			s.Log.Warn("cannot read whom this machine asks for names; nothing but the mesh's can be answered until it can, or --dns-upstream names somebody", "error", err)
		}
		return false
	}
	before := s.current.Load()
	if !first && slices.Equal(before.machine.upstreams, now.upstreams) && slices.Equal(before.machine.search, now.search) {
		return false
	}
	next := *before
	next.machine = now
	next.names = names.New(before.table, s.nameOptions(now))
	s.current.Store(&next)
	s.forward.Use(now.upstreams)
	s.Log.Info("forwarding other names to upstream resolvers", "upstreams", now.upstreams, "search", now.search)
	return true
}

// readMachine reads the configuration. Its upstreams never include this resolver.
func (s *Server) readMachine() (machineConfig, error) {
	content, err := os.ReadFile(s.ResolvConf)
	if err != nil && len(s.upstreams) == 0 {
		return machineConfig{}, err
	}
	config := resolvconf.Parse(content)
	out := machineConfig{search: config.Search, upstreams: s.upstreams}
	if len(s.upstreams) > 0 {
		return out, nil
	}
	servers := config.Servers
	around := s.BypassStub != nil && s.BypassStub()
	if around && slices.ContainsFunc(servers, resolvconf.Stub) {
		if content, err = os.ReadFile(stubPath(s.ResolvConf)); err != nil {
			return machineConfig{}, err
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

// stubPath returns the file with systemd-resolved's own upstreams. For tests, it lies beside their
// resolv.conf.
func stubPath(path string) string {
	if path == resolvconf.Path {
		return resolvconf.StubPath
	}
	return path + ".upstream"
}
