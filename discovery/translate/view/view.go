// Package view is what a proxy sees of a mesh, together with what the proxy is: the input of every
// translation.
package view

import (
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// View is one proxy's view of one mesh.
type View struct {
	Mesh   *mesh.Mesh
	Config *meshconfig.MeshConfig
	Proxy  *mesh.Proxy
	Scope  *mesh.Scope

	// IPv4 and IPv6 tell which families of addresses the proxy has.
	IPv4, IPv6 bool
}

// Of is the view of a proxy.
func Of(m *mesh.Mesh, p *mesh.Proxy) View {
	p = m.Known(p)
	return View{Mesh: m, Config: m.Config, Proxy: p, Scope: m.Scope(p), IPv4: p.HasIPv4(), IPv6: p.HasIPv6()}
}

// Sidecar reports whether the proxy is one, and not a router.
func (v View) Sidecar() bool { return v.Proxy.Type == mesh.Sidecar }

// Intercepted reports whether connections of the machine are redirected to the proxy.
func (v View) Intercepted() bool { return v.Proxy.Interception != mesh.InterceptionNone }

// Families keeps, of an IPv4 and an IPv6 address, those that the proxy can use. IPv4 comes first.
func (v View) Families(ipv4, ipv6 string) []string {
	switch {
	case v.IPv4 && v.IPv6:
		return []string{ipv4, ipv6}
	case v.IPv6:
		return []string{ipv6}
	default:
		return []string{ipv4}
	}
}

// Wildcards are the addresses to listen on for everyone.
func (v View) Wildcards() []string { return v.Families("0.0.0.0", "::") }

// Loopbacks are the addresses to listen on for the machine itself.
func (v View) Loopbacks() []string { return v.Families("127.0.0.1", "::1") }
