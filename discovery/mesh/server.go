package mesh

import (
	"fmt"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/hostname"
	"github.com/pgmesh/pgmesh/kinds"
)

// Server is one server of a Gateway: a port, its hosts, and whether TLS ends there.
type Server struct {
	Resource *kinds.Resource // the Gateway
	Gateway  string          // namespace/name
	Spec     *networking.Server
	Hosts    []ServerHost
	Protocol Protocol
	// Shows is the credential of the certificate that is shown to backends whose TLS a BackendTLSPolicy
	// asks for, by what came in here; "" for none.
	Shows string

	from     []kinds.Key // what has it
	at       string      // the path of the server there
	listener bool        // it is a listener of the Gateway API
}

// ServerHost is a host of a server, and the namespace whose rules may route it; "" means any.
type ServerHost struct{ Namespace, Name string }

func readServer(g *gateway, index int, spec *networking.Server) *Server {
	s := &Server{
		Resource: g.resource, Gateway: g.name, Spec: spec, Protocol: ParseProtocol(spec.GetPort().GetProtocol()), Shows: g.shows, from: g.from, at: g.at, listener: g.listener,
	}
	if s.at == "" {
		s.at = fmt.Sprintf("spec.servers[%d]", index)
	}
	for _, host := range spec.GetHosts() {
		s.Hosts = append(s.Hosts, readServerHost(host, g.resource.Namespace))
	}
	return s
}

// readServerHost reads namespace/host. The namespace may be "." for the Gateway's own, or "*",
// which is the default.
func readServerHost(host, own string) ServerHost {
	namespace, name, found := strings.Cut(strings.ToLower(host), "/")
	switch {
	case !found:
		return ServerHost{Name: namespace}
	case namespace == ".":
		return ServerHost{Namespace: own, Name: name}
	case namespace == "*":
		return ServerHost{Name: name}
	default:
		return ServerHost{Namespace: namespace, Name: name}
	}
}

// String writes a host as a Gateway does.
func (h ServerHost) String() string {
	if h.Namespace == "" {
		return h.Name
	}
	return h.Namespace + "/" + h.Name
}

// openTo reports whether rules in a namespace may route the host.
func (h ServerHost) openTo(namespace string) bool {
	return h.Namespace == "" || h.Namespace == namespace
}

// Mode says what happens to TLS. It means nothing without TLS settings.
func (s *Server) Mode() networking.ServerTLSSettings_TLSmode { return s.Spec.GetTls().GetMode() }

// PassesTLS reports whether connections are passed on encrypted, by their server name.
func (s *Server) PassesTLS() bool {
	return s.Spec.GetTls() != nil &&
		(s.Mode() == networking.ServerTLSSettings_PASSTHROUGH || s.Mode() == networking.ServerTLSSettings_AUTO_PASSTHROUGH)
}

// takesDatagrams reports whether the server is for UDP.
func (s *Server) takesDatagrams() bool { return s.Protocol == ProtocolUDP }

// AutoPassthrough reports whether server names are names of clusters, which sidecars elsewhere in
// the mesh ask for.
func (s *Server) AutoPassthrough() bool {
	return s.Spec.GetTls() != nil && s.Mode() == networking.ServerTLSSettings_AUTO_PASSTHROUGH
}

// Plain reports whether connections are not TLS. An HTTP server's TLS settings say only whether to
// redirect.
func (s *Server) Plain() bool { return s.Spec.GetTls() == nil || s.Protocol.IsHTTP() }

// EndsTLS reports whether TLS ends at the router.
func (s *Server) EndsTLS() bool { return !s.Plain() && !s.PassesTLS() }

// ReadsHTTP reports whether the router sees requests.
func (s *Server) ReadsHTTP() bool {
	return s.Protocol.IsHTTP() || s.Protocol == ProtocolHTTPS && s.EndsTLS()
}

// GetsHostsFromRoutes reports whether the server is a listener of the Gateway API for more than one
// host: each route that attaches to it may bring hosts of its own.
func (s *Server) GetsHostsFromRoutes() bool {
	return s.listener && slices.ContainsFunc(s.Hosts, func(h ServerHost) bool { return hostname.IsWildcard(h.Name) })
}

// ServerNames are those that TLS clients may ask for, sorted; nil means any.
func (s *Server) ServerNames() []string {
	var out []string
	for _, host := range s.Hosts {
		if host.Name == "*" {
			return nil
		}
		out = append(out, host.Name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// HostsFor are the names that both the server and a VirtualService have: of two that overlap, the
// narrower one.
func (s *Server) HostsFor(vs *VirtualService) []string {
	var out []string
	add := func(host string) {
		if !slices.Contains(out, host) {
			out = append(out, host)
		}
	}
	for _, own := range s.Hosts {
		if !own.openTo(vs.Resource.Namespace) && vs.routes == nil { // routes are bound to listeners that take them
			continue
		}
		for _, host := range vs.Spec.GetHosts() {
			if hostname.Within(own.Name, host) {
				add(own.Name)
			} else if hostname.Within(host, own.Name) {
				add(host)
			}
		}
	}
	return out
}

// routeName names the routes for the server's requests. Servers of plain HTTP on one port share
// them. A server that ends TLS has its own, because its certificate is for its hosts alone.
func (s *Server) routeName(bind string, port uint32) string {
	if bind != "" {
		bind = "." + bind
	}
	switch {
	case s.Protocol.IsHTTP():
		return fmt.Sprintf("http.%d%s", port, bind)
	case s.ReadsHTTP():
		return fmt.Sprintf("https.%d.%s.%s.%s%s", s.Spec.GetPort().GetNumber(), s.Spec.GetPort().GetName(),
			s.Resource.Name, s.Resource.Namespace, bind)
	default:
		return ""
	}
}

// problem is a problem of this server.
func (s *Server) problem(reason string) Problem {
	return Problem{Of: s.from[0], Path: s.at, Reason: reason}
}

// String names the server for people: port 443 of Gateway default/web.
func (s *Server) String() string {
	return fmt.Sprintf("port %d of %s", s.Spec.GetPort().GetNumber(), s.from[0])
}
