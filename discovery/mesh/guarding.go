package mesh

import (
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/kinds"
)

// Has reports whether there is a resource of this name.
func (m *Mesh) Has(key kinds.Key) bool { return m.from.Get(key) != nil }

// Guarding lists the resources that say what a proxy lets in.
func (m *Mesh) Guarding(p *Proxy) (out []kinds.Key) {
	for _, a := range m.AuthorizationPolicies(p) {
		out = append(out, a.Resource.Key())
	}
	for _, t := range m.tokenPolicies(p) {
		out = append(out, t.resource.Key())
	}
	out = append(out, m.peerAuthenticationsOf(m.Known(p))...)
	if in := m.peers.byNamespace[m.peers.root]; in != nil && in.general.from != nil {
		out = append(out, in.general.from.Key())
	}
	return out
}

// Telling lists the resources that say what a proxy tells of its traffic, and whom.
func (m *Mesh) Telling(p *Proxy) (out []kinds.Key) {
	for _, r := range m.telemetriesOf(p) {
		out = append(out, r.Key())
	}
	if config, some := m.MeshConfig(); some && m.Telemetry(p) != nil {
		out = append(out, config) // it has the providers
	}
	return out
}

// Opening lists the resources that have a router listen on a port, or that have a route
// configuration: its Gateways, and the rules that its connections follow.
func (f *Frontend) Opening(port uint32, route string) (out []kinds.Key) {
	servers := slices.Clone(f.Routes[route])
	for _, socket := range f.Sockets {
		if socket.Port != port || port == 0 {
			continue
		}
		for _, e := range socket.Entrances {
			servers = append(servers, e.Server)
			servers = append(servers, f.Routes[e.Route]...)
			if e.Rule != nil {
				out = append(out, e.Rule.MadeFrom()...)
			}
		}
	}
	for _, s := range servers {
		out = append(out, s.from...)
	}
	return out
}

// SecretBehind is the secret from which a proxy is given what it asks for by a name. NAME-cacert
// may be a part of the secret NAME.
func (m *Mesh) SecretBehind(p *Proxy, resource string) (kinds.Key, bool) {
	if key, is := authorityBehind(resource); is {
		return key, m.Has(key)
	}
	key := SecretNamed(p, resource)
	if m.Has(key) {
		return key, true
	}
	key.Name = strings.TrimSuffix(key.Name, kinds.AuthoritySuffix)
	return key, m.Has(key)
}

// MeshConfig names the one that counts; false if there is none.
func (m *Mesh) MeshConfig() (kinds.Key, bool) {
	r := ofMesh(m.from, kindMeshConfig)
	if r == nil {
		return kinds.Key{}, false
	}
	return r.Key(), true
}
