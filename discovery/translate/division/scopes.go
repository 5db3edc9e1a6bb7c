package division

import (
	"maps"
	"slices"

	"github.com/pgmesh/pgmesh/discovery/translate/memory"
	"github.com/pgmesh/pgmesh/discovery/translate/route"
	"github.com/pgmesh/pgmesh/discovery/translate/scoped"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
	"github.com/pgmesh/pgmesh/discovery/translate/virtualhost"
)

// byScopes divides a route configuration into virtual hosts and, once more, into scopes: one for
// each exact host, and one for all others, which is always there. If listeners find their routes by
// scopes, virtual hosts are divided likewise, so that a change of one is a change of the other.
func byScopes(v view.View, m *memory.Memory, full string) Division {
	all, counts := m.OnServers(v, full), v.CountsAttempts()
	d := Division{Configuration: route.Configuration(v, full)}
	askForHosts(d.Configuration)
	together := all.List()
	others := scoped.Route{Base: route.Configuration(v, full), Host: scoped.RestOfHosts, CountsAttempts: counts}
	for _, name := range slices.Sorted(maps.Keys(all.ByName)) {
		if scoped.IsExact(name) {
			d.Scopes = append(d.Scopes, scoped.Route{Base: others.Base, Host: name, Hosts: []virtualhost.Draft{*all.ByName[name]}, CountsAttempts: counts})
			delete(all.ByName, name)
		}
	}
	if len(all.ByName) > 0 { // where there are none, what is not found is answered by 404, too
		others.Hosts = all.List()
	}
	if scoped.On(v, full) {
		for _, s := range d.Scopes {
			d.Hosts = append(d.Hosts, s.AsHost())
		}
		if together = others.Hosts; len(together) == 0 {
			together = []virtualhost.Draft{virtualhost.Nobody}
		}
	}
	for _, h := range together {
		d.Hosts = append(d.Hosts, h.In(full, counts))
	}
	d.Scopes = append(d.Scopes, others)
	return d
}
