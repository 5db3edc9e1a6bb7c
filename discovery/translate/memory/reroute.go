package memory

import (
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
	"github.com/pgmesh/pgmesh/discovery/translate/virtualhost"
)

// Rerouting is what a change of rules and services does to the virtual hosts of a proxy.
type Rerouting struct {
	Hosts []virtualhost.Host // that have come, or have other routes
	Gone  []string           // the names of those that have gone
}

// Rerouted returns the virtual hosts that differ since the scope before. The memory must have made
// the divisions for that scope, and the proxy must listen as it did then. So the most frequent
// changes, those of a rule or of a service, cost only what they change. Changed are the hosts that
// have another service, or another policy. It reports false if more may have changed: then all
// divisions have to be made.
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
				*p = portHosts{port: p.port} // since a part of it may be edited
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
