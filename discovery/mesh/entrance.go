package mesh

import (
	"fmt"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
)

// Entrance says which connections to a socket, by their server name, go where.
type Entrance struct {
	Server *Server
	// Names are the server names in the client's TLS handshake; nil means whatever no other
	// entrance is for.
	Names []string
	// Route names the routes for the requests; "" if connections are passed on unread.
	Route string
	// To is where Rule sends the connections. Rule is nil if the server name itself names a
	// cluster.
	To   []*networking.RouteDestination
	Rule *VirtualService
}

// open makes the entrances of a server, and reports whether it can have them. If no rule routes its
// connections there are none, and nothing listens.
func (f *Frontend) open(x *Socket, s *Server, route string) bool {
	switch {
	case s.Protocol.IsHTTP():
		return x.plain != nil || f.enter(x, &Entrance{Server: s, Route: route}) // all servers of plain HTTP share one
	case s.ReadsHTTP():
		return f.enter(x, &Entrance{Server: s, Names: s.ServerNames(), Route: route})
	case s.AutoPassthrough():
		x.Entrances = append(x.Entrances, &Entrance{Server: s, Names: s.ServerNames()})
		return true
	case s.PassesTLS():
		f.openTLS(x, s)
		return true
	default:
		return f.openTCP(x, s)
	}
}

// openTCP follows the first rule with a route for the port. Of UDP it is the rule for datagrams.
func (f *Frontend) openTCP(x *Socket, s *Server) bool {
	for _, vs := range f.rulesFor(s) {
		for _, route := range vs.Spec.GetTcp() {
			if s.matchesAny(route.GetMatch()) && len(route.GetRoute()) > 0 {
				e := &Entrance{Server: s, To: route.GetRoute(), Rule: vs}
				if !s.Plain() {
					e.Names = s.ServerNames()
				}
				return f.enter(x, e)
			}
		}
	}
	return true
}

// openTLS makes an entrance for each match of the rules: the server name tells connections apart.
func (f *Frontend) openTLS(x *Socket, s *Server) {
	for _, vs := range f.rulesFor(s) {
		for i, route := range vs.Spec.GetTls() {
			for j, m := range route.GetMatch() {
				if len(route.GetRoute()) == 0 || !s.matches(m) {
					continue
				}
				by := vs.MadeFrom()[0].String()
				owner, taken := x.enter(&Entrance{Server: s, Names: namesOf(m), To: route.GetRoute(), Rule: vs}, by)
				if taken && owner != by {
					f.Problems = append(f.Problems, Problem{
						Of: vs.MadeFrom()[0], Path: vs.path(fmt.Sprintf("spec.tls[%d].match[%d]", i, j)),
						Reason: fmt.Sprintf("one of these server names has %s already, on %s: the match is left out there", owner, s),
					})
				}
			}
		}
	}
}

// namesOf are the server names of a match, sorted; nil means any.
func namesOf(m *networking.TLSMatchAttributes) []string {
	if len(m.GetSniHosts()) == 0 || slices.Contains(m.GetSniHosts(), "*") {
		return nil
	}
	names := make([]string, len(m.GetSniHosts()))
	for i, name := range m.GetSniHosts() {
		names[i] = strings.ToLower(name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// enter adds the entrance of a whole server. It fails if another server has its connections: Envoy
// would refuse the socket.
func (f *Frontend) enter(x *Socket, e *Entrance) bool {
	owner, taken := x.enter(e, e.Server.String())
	if taken {
		f.reject(e.Server, fmt.Sprintf("connections for one of its hosts belong to %s already: the server is left out", owner))
	}
	return !taken
}

func (x *Socket) enter(e *Entrance, by string) (owner string, taken bool) {
	if owner, taken = x.take(e.Names, by); !taken {
		x.Entrances = append(x.Entrances, e)
	}
	return owner, taken
}

// rulesFor lists the rules of the server's Gateway that share a host with it.
func (f *Frontend) rulesFor(s *Server) []*VirtualService {
	var out []*VirtualService
	for _, vs := range f.from.rules[s.Gateway] {
		if len(s.HostsFor(vs)) > 0 {
			out = append(out, vs)
		}
	}
	return out
}

// gatewayMatch is what a match says of a gateway. It knows no labels or namespaces of clients.
type gatewayMatch interface {
	GetPort() uint32
	GetGateways() []string
}

func (s *Server) matches(m gatewayMatch) bool {
	return (m.GetPort() == 0 || m.GetPort() == s.Spec.GetPort().GetNumber()) &&
		(len(m.GetGateways()) == 0 || slices.Contains(m.GetGateways(), s.Gateway))
}

func (s *Server) matchesAny(list []*networking.L4MatchAttributes) bool {
	return len(list) == 0 || slices.ContainsFunc(list, func(m *networking.L4MatchAttributes) bool { return s.matches(m) })
}
