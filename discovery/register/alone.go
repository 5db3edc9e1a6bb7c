package register

import (
	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// aloneFor returns the hosts that only this machine takes requests for, by its WorkloadEntries. It leaves
// out entries that take no requests now.
func aloneFor(m *mesh.Mesh, namespace string, own map[string]bool) map[string][]string {
	out := map[string][]string{}
	for _, service := range m.Services() {
		if service.Namespace != namespace {
			continue // entries are selected in their own namespace
		}
		for _, entry := range soleOf(service, own) {
			out[entry] = append(out[entry], service.Hostname)
		}
	}
	return out
}

// soleOf returns those of some WorkloadEntries that take requests for a service, if nobody else does.
func soleOf(service *mesh.Service, own map[string]bool) (sole []string) {
	seen := map[string]bool{} // an entry has an endpoint for each port
	for _, e := range service.Endpoints {
		mine := e.Standalone() && own[e.Workload]
		switch {
		case !e.TakesRequests():
		case !mine:
			return nil
		case !seen[e.Workload]:
			seen[e.Workload] = true
			sole = append(sole, e.Workload)
		}
	}
	return sole
}
