package memory

import (
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
	"github.com/pgmesh/pgmesh/discovery/translate/virtualhost"
)

// Rerouting is what a change of rules and services comes to for the virtual hosts of a proxy's divisions.
type Rerouting struct {
	Hosts []virtualhost.Host // those that have come, or have other routes
	Gone  []string           // the names of those that have gone
}

// Rerouted are the virtual hosts that differ, for a proxy whose divisions were made with the memory when it saw the scope before, and which listens
// as it did: so the most frequent changes, of a rule and of a service, cost what they change. Changed are the hosts that have another service,
// or another policy. It reports false where more may have changed; then all divisions have to be made.
func (m *Memory) Rerouted(v view.View, before *mesh.Scope, since *mesh.ScopeChange, changed map[string]bool) (out Rerouting, ok bool) {
	if m.mixed || !v.Sidecar() {
		return out, false
	}
	for i, egress := range v.Scope.Egress {
		edit := egressEdit{
			recalling: recalling{v, m}, before: before, egress: egress, changed: changed,
			services: since.Egress[i].Services, rules: since.Egress[i].VirtualServices,
		}
		for at, p := range m.now.ports {
			if at.egress != i {
				continue
			}
			if !p.edit(&edit, &out) {
				*p = portHosts{port: p.port} // of which a part may be edited
				return Rerouting{}, false
			}
		}
	}
	return out, true
}

// egressEdit is what has changed of an egress listener.
type egressEdit struct {
	recalling

	before   *mesh.Scope
	egress   *mesh.Egress
	changed  map[string]bool // hosts with another service, or another policy
	services mesh.Exchange[*mesh.Service]
	rules    mesh.Exchange[*mesh.VirtualService]
}
