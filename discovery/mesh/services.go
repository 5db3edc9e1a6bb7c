package mesh

import (
	"slices"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/pgmesh/pgmesh/discovery/configstore"
)

// serviceIndex is every service, the oldest first.
type serviceIndex struct {
	all       []*Service
	byHost    map[string][]*Service
	byAddress map[string][]Target
}

// Target is one port of one service as a workload serves it.
type Target struct {
	Service *Service
	Port    *Port
	// Number is the port that the workload listens on.
	Number uint32
}

type hostKey struct{ namespace, host string }

func buildServices(snapshot *configstore.Snapshot, prev *Mesh, config *meshconfig.MeshConfig, sameConfig bool) serviceIndex {
	if sameConfig && prev.unchanged(snapshot, kindServiceEntry, kindWorkloadEntry) {
		return prev.services
	}
	workloads := buildWorkloads(snapshot)
	index := serviceIndex{byHost: map[string][]*Service{}, byAddress: map[string][]Target{}}
	for r := range snapshot.Of(kindServiceEntry) {
		index.all = append(index.all, convertEntry(r, config.DefaultServiceExportTo, workloads.selected)...)
	}
	slices.SortStableFunc(index.all, compareServices)
	index.shareEndpoints()
	for _, s := range index.all {
		index.byHost[s.Hostname] = append(index.byHost[s.Hostname], s)
		index.addTargets(s)
	}
	return index
}

// shareEndpoints gives every entry for a host in a namespace the endpoints of all of them.
func (x *serviceIndex) shareEndpoints() {
	groups := map[hostKey][]*Service{}
	for _, s := range x.all {
		key := hostKey{s.Namespace, s.Hostname}
		groups[key] = append(groups[key], s)
	}
	for _, group := range groups {
		endpoints := group[0].own
		for _, s := range group[1:] {
			endpoints = append(slices.Clip(endpoints), s.additional(endpoints)...)
		}
		for _, s := range group {
			s.Endpoints = endpoints
		}
	}
}

// additional leaves out, for DNS_ROUND_ROBIN, ports that already have endpoints: Envoy resolves a single name there.
func (s *Service) additional(have []*Endpoint) []*Endpoint {
	if s.Resolution != ResolutionDNSRR {
		return s.own
	}
	return slices.DeleteFunc(slices.Clone(s.own), func(e *Endpoint) bool {
		return slices.ContainsFunc(have, func(h *Endpoint) bool { return h.PortNumber == e.PortNumber })
	})
}

// addTargets remembers which addresses serve the service, for the proxies at them.
func (x *serviceIndex) addTargets(s *Service) {
	for _, e := range s.own {
		if e.Unix || !IsAddress(e.Address) {
			continue
		}
		x.byAddress[e.Address] = append(x.byAddress[e.Address], Target{Service: s, Port: s.Port(e.PortNumber), Number: e.Port})
	}
}

// Services iterates over every service of the mesh, whoever may see it, the oldest first. The slice must not be changed.
func (m *Mesh) Services() []*Service { return m.services.all }

// Targets lists what the workload beside a proxy serves: the endpoints at the proxy's own addresses, of services in its
// own namespace only, so that no namespace can put its services in front of another's workloads.
func (m *Mesh) Targets(p *Proxy) []Target {
	var out []Target
	for _, ip := range p.Addresses {
		for _, t := range m.services.byAddress[ip] {
			if t.Service.Namespace == p.Namespace {
				out = append(out, t)
			}
		}
	}
	return out
}
