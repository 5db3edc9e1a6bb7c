package mesh

import (
	"iter"
	"slices"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/kinds"
)

// serviceIndex has every service. It never changes; a step makes the next one from it.
type serviceIndex struct {
	all         []*Service // the oldest first
	byNamespace table[string, []*Service]
	byHost      table[string, []*Service]
	byAddress   table[string, []Target]           // what is served at an address
	rivals      table[string, []Problem]          // by address
	claims      table[string, []Problem]          // by host: of origins that do not count
	crossings   []*Service                        // lead to the networks that their labels name, the oldest first
	joined      bool                              // some service comes, or came, from a registry
	faulty      table[*kinds.Resource, []Problem] // entries that proxies leave a part out of

	workloads  *workloadIndex
	pools      pools
	entries    table[*kinds.Resource, entry]
	selecting  table[labelAt, []*kinds.Resource] // the entries that select workloads, by a label that those must have
	hosts      table[hostKey, hostServices]      // by host and namespace
	allocation allocation
}

// entry is a converted ServiceEntry with the workloads that it selects.
type entry struct {
	services []*Service
	selected []*workload
}

type hostKey struct{ namespace, host string }

// buildServices applies a step to the services of prev, by the configuration and the trust of m. It
// also returns which services went and came.
func buildServices(now configstore.Step, prev, m *Mesh) (*serviceIndex, Exchange[*Service]) {
	before, exportDefault := prev.services, m.Config.GetDefaultServiceExportTo()
	changed := m.Trust().changedSince(prev.Trust())
	sameDefault := slices.Equal(prev.Config.GetDefaultServiceExportTo(), exportDefault) && samePorts(prev.Config, m.Config)
	switch {
	case before == nil:
		before = &serviceIndex{workloads: &workloadIndex{}}
	case sameDefault && len(changed.Revoked) == 0 && prev.unchanged(now, kindServiceEntry, kindWorkloadEntry, kindPool):
		return before, Exchange[*Service]{}
	}
	u := serviceUpdate{
		before: before, exportDefault: exportDefault, config: m.Config, trust: m.Trust(),
		entries: before.entries.edit(), faulty: before.faulty.edit(), hosts: map[hostKey]ownChange{},
	}
	var workloads []workloadChange
	u.entries.expect(now.Len(kindServiceEntry) - u.entries.size)
	u.workloads, workloads = before.workloads.following(now.Edits(kindWorkloadEntry))
	edits := now.Edits(kindServiceEntry)
	var ofPools []configstore.Edit
	if u.pools, ofPools = before.pools.following(now); len(ofPools) > 0 {
		edits = slices.Concat(edits, ofPools)
	}
	selections := before.selections(workloads)
	before.addNaming(changed, selections)
	for _, e := range edits {
		u.replace(e.Before, e.After)
		delete(selections, e.Before)
	}
	if sameDefault {
		for r, selected := range selections {
			u.convert(r, r, selected)
		}
	} else {
		u.convertRest(now, edits)
	}
	return u.done()
}

// selections finds the entries that select one of the changed workloads, each with its new list of
// workloads.
func (x *serviceIndex) selections(changes []workloadChange) map[*kinds.Resource][]*workload {
	type change struct{ gone, come []*workload }
	of := map[*kinds.Resource]*change{}
	visit := func(w *workload, add func(*change)) {
		if w == nil {
			return
		}
		for _, at := range w.places() {
			for _, r := range x.selecting.get(at) {
				if w.selectedBy(r) {
					if of[r] == nil {
						of[r] = &change{}
					}
					add(of[r])
				}
			}
		}
	}
	for _, c := range changes {
		visit(c.before, func(of *change) { of.gone = append(of.gone, c.before) })
		visit(c.after, func(of *change) { of.come = append(of.come, c.after) })
	}
	out := make(map[*kinds.Resource][]*workload, len(of))
	for r, c := range of {
		out[r] = patched(x.entries.get(r).selected, c.gone, c.come, compareWorkloads)
	}
	return out
}

// addNaming adds the entries that name one of these identities, or that select workloads with one.
func (x *serviceIndex) addNaming(identities *Trust, selections map[*kinds.Resource][]*workload) {
	if len(identities.Revoked) == 0 {
		return
	}
	for r, e := range x.entries.each() {
		if _, known := selections[r]; !known && e.names(identities) {
			selections[r] = e.selected
		}
	}
}

// names reports whether one of these identities is that of a service of the entry, or of an
// endpoint.
func (e entry) names(identities *Trust) bool {
	return slices.ContainsFunc(e.services, func(s *Service) bool {
		return identities.names(s.SubjectAltNames) || slices.ContainsFunc(s.Endpoints, func(e *Endpoint) bool { return identities.revokes(e.Namespace, e.ServiceAccount) })
	})
}

// serviceUpdate is the next index in the making.
type serviceUpdate struct {
	before        *serviceIndex
	exportDefault []string
	config        *meshconfig.MeshConfig
	trust         *Trust

	workloads  *workloadIndex
	pools      pools
	entries    *tableEdit[*kinds.Resource, entry]
	faulty     *tableEdit[*kinds.Resource, []Problem]
	gone, come []*kinds.Resource     // entries that select workloads
	hosts      map[hostKey]ownChange // those whose services change
}

// ownChange has the services of a host as their entries declare them, before and after.
type ownChange struct{ before, now []*Service }

// replace converts an entry that changed. Either may be nil.
func (u *serviceUpdate) replace(before, after *kinds.Resource) {
	if before != nil && selectsWorkloads(before) {
		u.gone = append(u.gone, before)
	}
	var selected []*workload
	if after != nil && selectsWorkloads(after) {
		u.come = append(u.come, after)
		selected = u.workloads.selectedBy(after)
	}
	u.convert(before, after, selected)
}

// convert replaces an entry by its new version, and records for each of its hosts which services go
// and come. Selected are the workloads that the new version selects.
func (u *serviceUpdate) convert(before, after *kinds.Resource, selected []*workload) {
	var was, is entry
	if before != nil {
		was = u.entries.get(before)
		u.entries.remove(before)
		u.faulty.remove(before)
	}
	if after != nil {
		is = entry{services: u.convertEntry(after, selected, was.services), selected: selected}
		u.entries.set(after, is)
		if problems := is.problems(u.config); len(problems) > 0 {
			u.faulty.set(after, problems)
		}
	}
	for _, s := range was.services {
		u.change(s.key(), []*Service{s}, nil)
	}
	for _, s := range is.services {
		u.change(s.key(), nil, []*Service{s})
	}
}

// convertRest converts the entries that are not among those that the step changes.
func (u *serviceUpdate) convertRest(now configstore.Step, changed []configstore.Edit) {
	edited := map[*kinds.Resource]bool{}
	for _, e := range changed {
		edited[e.After] = true
	}
	convert := func(r *kinds.Resource) {
		if r != nil && !edited[r] {
			u.convert(r, r, u.workloads.selectedBy(r))
		}
	}
	for r := range now.Of(kindServiceEntry) {
		convert(r)
	}
	for _, p := range u.pools {
		convert(p.Entry())
	}
}

// change records that services for a host go and come.
func (u *serviceUpdate) change(key hostKey, gone, come []*Service) {
	c, known := u.hosts[key]
	if !known {
		own := u.before.hosts.get(key).own
		c = ownChange{own, own}
	}
	c.now = patched(c.now, gone, come, compareServices)
	u.hosts[key] = c
}

// all yields the services of every host as their entries declare them now.
func (u *serviceUpdate) all() iter.Seq2[hostKey, []*Service] {
	return func(yield func(hostKey, []*Service) bool) {
		for key, h := range u.before.hosts.each() {
			if _, changed := u.hosts[key]; !changed && !yield(key, h.own) {
				return
			}
		}
		for key, c := range u.hosts {
			if len(c.now) > 0 && !yield(key, c.now) {
				return
			}
		}
	}
}

// done makes the next index. It allocates addresses first, because that may move hosts that no
// entry changed, and then makes the services of each changed host again.
func (u *serviceUpdate) done() (*serviceIndex, Exchange[*Service]) {
	x := *u.before
	x.workloads, x.pools, x.entries, x.faulty = u.workloads, u.pools, u.entries.done(), u.faulty.done()
	x.selecting = patchedLists(x.selecting, u.gone, u.come, func(r *kinds.Resource) []labelAt { return []labelAt{selectorPlace(r)} }, kinds.CompareAge)
	var moved []hostKey
	x.allocation, moved = x.allocation.following(u.hosts, u.all)
	for _, key := range moved {
		u.change(key, nil, nil)
	}
	var gone, come []*Service
	hosts := x.hosts.edit()
	hosts.expect(x.entries.size - x.hosts.size)
	for key, c := range u.hosts {
		was := x.hosts.get(key)
		is := was.following(c.now, &x.allocation)
		hosts.put(key, is, len(is.own) == 0)
		gone, come = append(gone, without(was.all, is.all)...), append(come, without(is.all, was.all)...)
	}
	x.hosts = hosts.done()
	x.replaceServices(gone, come)
	x.replaceClaims(u.hosts)
	return &x, Exchange[*Service]{gone, come}
}

// replaceServices brings the lists of services up to date.
func (x *serviceIndex) replaceServices(gone, come []*Service) {
	x.all = patched(x.all, gone, come, compareServices)
	x.byNamespace = patchedLists(x.byNamespace, gone, come, func(s *Service) []string { return []string{s.Namespace} }, compareServices)
	x.byHost = patchedLists(x.byHost, gone, come, func(s *Service) []string { return []string{s.Hostname} }, compareServices)
	x.replaceTargets(gone, come)
	x.crossings = patched(x.crossings, crossing(gone), crossing(come), compareServices)
}

func crossing(services []*Service) (out []*Service) {
	for _, s := range services {
		if s.isCrossing() {
			out = append(out, s)
		}
	}
	return out
}

// hostServices are the services for a host in a namespace, the oldest first, in the three states in
// which they are made.
type hostServices struct {
	own       []*Service // as their entries declare them
	counting  []*Service // those of them that count
	addressed []*Service // with allocated addresses
	all       []*Service // with the endpoints of all: what proxies see
}

// following reuses copies of h whose inputs are the same. Of several origins the first counts, with its
// set.
func (h hostServices) following(own []*Service, allocation *allocation) hostServices {
	counting := ofFirstOrigin(own)
	out := hostServices{own: own, counting: counting, addressed: make([]*Service, len(counting))}
	for i, s := range counting {
		out.addressed[i] = h.addressing(s, allocation)
	}
	switch {
	case len(counting) == 1:
		out.all = out.addressed
	case slices.Equal(out.addressed, h.addressed):
		out.all = h.all
	default:
		out.all = sharingEndpoints(out.addressed)
	}
	return out
}

// addressing returns the service with the addresses of its host's slot, if it gets some.
func (h hostServices) addressing(s *Service, allocation *allocation) *Service {
	slot, ok := allocation.slot(s.key())
	if !ok || !s.allocatable() {
		return s
	}
	var alike *Service
	for i := range h.addressed {
		before := h.counting[i]
		if before.Shape != s.Shape {
			continue
		}
		if before == s && h.addressed[i] != s && h.addressed[i].slot == slot {
			return h.addressed[i]
		}
		alike = h.addressed[i]
	}
	return s.at(slot, alike)
}

// sharingEndpoints returns copies of a host's services. Each has the endpoints of all of them, and
// the names that those may bear.
func sharingEndpoints(services []*Service) []*Service {
	var endpoints []*Endpoint
	var names []string
	var sharing []*kinds.Resource
	for _, s := range services {
		endpoints = append(endpoints, s.additional(endpoints)...)
		names = append(names, s.SubjectAltNames...)
		sharing = append(sharing, s.Entry)
	}
	out := make([]*Service, len(services))
	for i, s := range services {
		out[i] = s.copied()
		out[i].Endpoints, out[i].names, out[i].sharing = endpoints, names, sharing
		out[i].Local = out[i].local()
		if s.Resolution == ResolutionNone {
			out[i].Shape = &Shape{}
		}
	}
	return out
}

// additional leaves out, for DNS_ROUND_ROBIN, endpoints of a port that has one already: Envoy
// resolves a single name there.
func (s *Service) additional(have []*Endpoint) []*Endpoint {
	if s.Resolution != ResolutionDNSRR {
		return s.Endpoints
	}
	var out []*Endpoint
	for _, e := range s.Endpoints {
		serves := func(h *Endpoint) bool {
			return h.PortNumber == e.PortNumber && h.Datagrams == e.Datagrams && h.serving()
		}
		if !slices.ContainsFunc(have, serves) && !slices.ContainsFunc(out, serves) {
			out = append(out, e)
		}
	}
	return out
}

// Services returns every service of the mesh, whoever may see it, the oldest first. The slice must
// not be changed.
func (m *Mesh) Services() []*Service { return m.services.all }
