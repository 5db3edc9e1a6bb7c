package mesh

import (
	"slices"

	"github.com/pgmesh/pgmesh/discovery/hostname"
)

// Misdirected says which requests have come to a server over a connection that was opened for it, and
// are for another one of the same socket. A client may send them so, if the certificate that it has seen
// is for both hosts.
type Misdirected struct {
	// Hosts are those of other servers, sorted. A host may be a wildcard.
	Hosts []string
	// Own are those of the server, which a wildcard of another may cover.
	Own []string
}

// Equal reports whether two say the same.
func (m Misdirected) Equal(other Misdirected) bool {
	return slices.Equal(m.Hosts, other.Hosts) && slices.Equal(m.Own, other.Own)
}

// Names reports whether it says something of a host by its name.
func (m Misdirected) Names(host string) bool {
	return slices.Contains(m.Own, host) || slices.Contains(m.Hosts, host)
}

// mostListed is how many hosts of others a server lists that have nothing to do with its own. Where there
// are more, it takes all hosts for another's that are not its own. So the configuration does not grow with
// the square of the listeners.
const mostListed = 64

// Misdirected returns which requests of a route configuration are for others. That is so for listeners of
// the Gateway API alone, as the API wants it.
func (f *Frontend) Misdirected(configuration string) (out Misdirected) {
	servers := f.Routes[configuration]
	if len(servers) != 1 || !servers[0].listener || !servers[0].EndsTLS() {
		return out // only a server that ends TLS is known by the connection
	}
	own := servers[0]
	var outside []string
	for _, host := range f.besides(own, configuration) {
		switch {
		case own.has(host):
		case own.within(host):
			out.Hosts = append(out.Hosts, host)
		default:
			outside = append(outside, host)
		}
	}
	outside = sortedOnce(outside)
	if slices.Contains(outside, everyHost) || len(outside) > mostListed {
		outside = []string{everyHost}
	}
	if out.Hosts = sortedOnce(append(out.Hosts, outside...)); len(out.Hosts) == 0 {
		return out
	}
	for _, h := range own.Hosts {
		out.Own = append(out.Own, h.Name)
	}
	return out
}

// everyHost is the wildcard for all.
const everyHost = "*"

// besides lists the hosts of other servers of a socket that end TLS and read requests.
func (f *Frontend) besides(own *Server, configuration string) (out []string) {
	for _, x := range f.Sockets {
		if !slices.ContainsFunc(x.Entrances, func(e *Entrance) bool { return e.Server == own && e.Route == configuration }) {
			continue
		}
		for _, e := range x.Entrances {
			if e.Server == own || e.Route == "" || !e.Server.EndsTLS() {
				continue
			}
			for _, h := range e.Server.Hosts {
				out = append(out, h.Name)
			}
		}
	}
	return out
}

// has reports whether a host is one of the server's, as it stands.
func (s *Server) has(host string) bool {
	return slices.ContainsFunc(s.Hosts, func(h ServerHost) bool { return h.Name == host })
}

// within reports whether a host is within one of the server's.
func (s *Server) within(host string) bool {
	return slices.ContainsFunc(s.Hosts, func(h ServerHost) bool { return hostname.Within(host, h.Name) })
}

func sortedOnce(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}
