package mesh

import (
	"net/netip"
	"slices"
)

// binds are the addresses that a router has a server of the Gateway on; "" is all of its addresses. It is
// all of them, too, if it has none of those that the Gateway is for: they may be in front of it, or come
// to it when another machine dies.
func (g *gateway) binds(p *Proxy, s *Server) []string {
	asked := slices.DeleteFunc(slices.Clone(g.addresses), func(a string) bool { return !p.has(a) })
	if len(asked) == 0 {
		return []string{s.Spec.GetBind()}
	}
	return asked
}

// has reports whether an address is one of the proxy's.
func (p *Proxy) has(address string) bool {
	return slices.ContainsFunc(p.Addresses, func(own string) bool {
		a, err := netip.ParseAddr(own)
		return err == nil && a.String() == address
	})
}

// askedFor are the addresses of a router that Gateways are for.
func (m *Mesh) askedFor(p *Proxy) (out []string) {
	if p.Type != Router {
		return nil
	}
	for _, a := range m.gateways.addresses {
		if p.has(a) {
			out = append(out, a)
		}
	}
	return out
}
