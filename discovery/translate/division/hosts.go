package division

import (
	"maps"
	"slices"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/memory"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
	"github.com/pgmesh/pgmesh/discovery/translate/route"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
	"github.com/pgmesh/pgmesh/discovery/translate/virtualhost"
)

// hosts are the virtual hosts of a route configuration by its name.
func hosts(v view.View, m *memory.Memory, full string) []virtualhost.Draft {
	if !v.Sidecar() {
		return m.OnServers(v, full).List()
	}
	name := naming.ParseRoute(full)
	egress := route.EgressOf(v, name)
	var hosts []virtualhost.Draft
	switch {
	case egress == nil:
	case name.AnyPort(egress):
		hosts = hostsOfAllPorts(v, m, egress)
	default:
		hosts = m.OnPort(v, egress, name.Port)
	}
	switch {
	case name.Host != "":
		return only(hosts, name.Host)
	case slices.ContainsFunc(hosts, virtualhost.Draft.TakesAll): // Envoy refuses a second one
		return hosts
	default:
		return append(slices.Clip(hosts), virtualhost.Unmatched(v))
	}
}

// only keeps the virtual host of one service, whatever host requests name: the listener is for it
// alone.
func only(hosts []virtualhost.Draft, host string) []virtualhost.Draft {
	for _, h := range hosts {
		if slices.Contains(h.Domains, host) {
			h.Domains = []string{"*"}
			return []virtualhost.Draft{h}
		}
	}
	return nil
}

// hostsOfAllPorts is for requests that name the port. If they name none they mean port 80.
func hostsOfAllPorts(v view.View, m *memory.Memory, egress *mesh.Egress) []virtualhost.Draft {
	var out []virtualhost.Draft
	for _, port := range httpPorts(egress) {
		for _, h := range m.OnPort(v, egress, port) {
			h.Domains = withPort(h.Domains, port)
			out = append(out, h)
		}
	}
	slices.SortStableFunc(out, virtualhost.Draft.Compare)
	return out
}

// withPort writes domains as requests name them that name the port.
func withPort(plain []string, port uint32) (out []string) {
	for _, domain := range plain {
		if port == memory.DefaultHTTPPort {
			out = append(out, domain)
		}
		out = append(out, domain+":"+naming.Number(port))
	}
	return out
}

// httpPorts are the ports with requests, in ascending order. That which an unnamed port means is
// always there.
func httpPorts(egress *mesh.Egress) []uint32 {
	ports := map[uint32]bool{memory.DefaultHTTPPort: true}
	for _, s := range egress.Services {
		for _, port := range s.Ports {
			if port.Protocol.HasRoutes() {
				ports[port.Number] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(ports))
}
