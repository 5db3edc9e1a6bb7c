package mesh

import (
	"maps"
	"slices"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/kinds"
)

// serviceIndex is every service, the oldest first.
type serviceIndex struct {
	all       []*Service
	byAddress map[string][]Target

	workloads workloadIndex
	entries   map[*kinds.Resource]entry // to take over what did not change
	allocated map[*Service]*Service     // with addresses, by the service without
}

// entry is a converted ServiceEntry and the workloads that its selector chose.
type entry struct {
	services []*Service
	selected []*workload
}

// Target is one port of one service as a workload serves it.
type Target struct {
	Service *Service
	Port    *Port
	// Number is the port that the workload listens on.
	Number uint32
	// Locality is where the endpoint is said to be.
	Locality string

	endpoint *Endpoint
}

type hostKey struct{ namespace, host string }

func buildServices(snapshot *configstore.Snapshot, prev *Mesh, config *meshconfig.MeshConfig, sameConfig bool) serviceIndex {
	if sameConfig && prev.unchanged(snapshot, kindServiceEntry, kindWorkloadEntry) {
		return prev.services
	}
	index := serviceIndex{
		byAddress: map[string][]Target{},
		workloads: buildWorkloads(snapshot, prev.services.workloads),
		entries:   make(map[*kinds.Resource]entry, snapshot.Len(kindServiceEntry)),
	}
	for r := range snapshot.Of(kindServiceEntry) {
		selected := index.workloads.selectedBy(r)
		e, known := prev.services.entries[r]
		if !known || !sameConfig || !slices.Equal(e.selected, selected) {
			e = entry{services: convertEntry(r, config.GetDefaultServiceExportTo(), selected), selected: selected}
		}
		index.entries[r] = e
		index.all = append(index.all, e.services...)
	}
	slices.SortStableFunc(index.all, compareServices)
	index.allocate(prev.services.allocated)
	index.shareEndpoints()
	for _, s := range index.all {
		index.addTargets(s)
	}
	return index
}

// shareEndpoints gives every entry for a host in a namespace the endpoints of all of them, in copies: the services of
// an entry alone may be those of the mesh before.
func (x *serviceIndex) shareEndpoints() {
	groups := map[hostKey][]int{}
	for i, s := range x.all {
		key := hostKey{s.Namespace, s.Hostname}
		groups[key] = append(groups[key], i)
	}
	for _, group := range groups {
		if len(group) == 1 {
			continue
		}
		var endpoints []*Endpoint
		for _, i := range group {
			endpoints = append(endpoints, x.all[i].additional(endpoints)...)
		}
		for _, i := range group {
			shared := *x.all[i]
			shared.Endpoints = endpoints
			x.all[i] = &shared
		}
	}
}

// additional leaves out, for DNS_ROUND_ROBIN, ports that already have endpoints: Envoy resolves a single name there.
func (s *Service) additional(have []*Endpoint) []*Endpoint {
	if s.Resolution != ResolutionDNSRR {
		return s.Endpoints
	}
	return slices.DeleteFunc(slices.Clone(s.Endpoints), func(e *Endpoint) bool {
		return slices.ContainsFunc(have, func(h *Endpoint) bool { return h.PortNumber == e.PortNumber })
	})
}

// addTargets remembers which addresses serve the service, for the proxies at them.
func (x *serviceIndex) addTargets(s *Service) {
	for _, e := range s.Endpoints {
		if e.entry != s.Entry {
			continue // another entry for the host, with its own ports, served it
		}
		if e.Unix || !IsAddress(e.Address) {
			continue
		}
		x.byAddress[e.Address] = append(x.byAddress[e.Address], Target{Service: s, Port: s.Port(e.PortNumber), Number: e.Port, Locality: e.Locality, endpoint: e})
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
			if t.Service.Namespace == p.Namespace && (p.Type == Sidecar || t.isRouter(p)) {
				out = append(out, t)
			}
		}
	}
	return out
}

// isRouter reports whether the endpoint is the router itself. A machine has one address for its router and for the
// applications on it: only labels, all of which are also the router's, tell.
func (t Target) isRouter(p *Proxy) bool {
	own := givenLabels(t.endpoint.Labels)
	return len(own) > 0 && LabelsWithin(own, p.Labels)
}

// Known returns a sidecar as the mesh knows its workload: where services name one at its addresses with labels, those are
// its labels, whatever it says about itself. A router is what it says.
func (m *Mesh) Known(p *Proxy) *Proxy {
	if p.Type != Sidecar {
		return p
	}
	for _, t := range m.Targets(p) {
		if len(givenLabels(t.endpoint.Labels)) == 0 {
			continue
		}
		known := *p
		known.Labels = maps.Clone(p.StaticLabels)
		if known.Labels == nil {
			known.Labels = map[string]string{}
		}
		maps.Copy(known.Labels, t.endpoint.Labels)
		return &known
	}
	return p
}
