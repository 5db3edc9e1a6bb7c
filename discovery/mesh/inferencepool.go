package mesh

import (
	"cmp"
	"maps"
	"slices"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/gatewayapi"
	"github.com/pgmesh/pgmesh/kinds"
)

// An InferencePool is a service of the mesh: a ServiceEntry that selects workloads, of which each port is
// an endpoint. Routes of the Gateway API lead to it, and nobody else: applications do not see it.

var kindPool = gatewayapi.KindPool

// poolIndex has the InferencePools. It never changes.
type poolIndex struct {
	all     table[kinds.Key, *pool]
	picking keyLists[string]    // pools by the hosts of their pickers
	naming  keyLists[kinds.Key] // pools by the ServiceEntries that they name as their pickers
}

// pool is an InferencePool as a service.
type pool struct {
	*gatewayapi.Pool

	entry *kinds.Resource // nil if it is none
}

func (p *pool) pickers() []string { return []string{p.Picker.Host} }

func (p *pool) pickerEntries() []kinds.Key { return []kinds.Key{p.PickerEntry} }

// entryOf is the pool as a ServiceEntry; nil for none.
func (p *pool) entryOf() *kinds.Resource {
	if p == nil {
		return nil
	}
	return p.entry
}

// following returns the index after a step, and what that changes of the ServiceEntries that pools are.
func (x poolIndex) following(now configstore.Step) (poolIndex, []configstore.Edit) {
	changed := x.changed(now)
	if len(changed) == 0 {
		return x, nil
	}
	var edits []configstore.Edit
	var gone, come []*pool
	all := x.all.edit()
	for _, key := range changed {
		was, is := all.get(key), readPool(now, key)
		all.put(key, is, is == nil)
		gone, come = append(gone, some(was)...), append(come, some(is)...)
		if was.entryOf() != nil || is.entryOf() != nil {
			edits = append(edits, configstore.Edit{Before: was.entryOf(), After: is.entryOf()})
		}
	}
	x.all = all.done()
	x.picking = changedKeys(x.picking, gone, come, (*pool).pickers)
	x.naming = changedKeys(x.naming, gone, come, (*pool).pickerEntries)
	return x, edits
}

// changed are the pools that a step changes, and those whose picker is a ServiceEntry that it changes.
func (x poolIndex) changed(now configstore.Step) []kinds.Key {
	keys := map[kinds.Key]bool{}
	for _, e := range now.Edits(kindPool) {
		keys[cmp.Or(e.After, e.Before).Key()] = true
	}
	if x.all.size > 0 {
		for _, e := range now.Edits(kindServiceEntry) {
			for _, key := range x.naming.get(cmp.Or(e.After, e.Before).Key()) {
				keys[key] = true
			}
		}
	}
	return slices.SortedFunc(maps.Keys(keys), kinds.Key.Compare)
}

func readPool(now configstore.Step, key kinds.Key) *pool {
	r := now.Get(key)
	if r == nil {
		return nil
	}
	read := gatewayapi.ReadPool(r, func(entry kinds.Key) []string { return hostsOfEntry(now, entry) })
	return &pool{read, read.Entry()}
}

// poolOf is the pool that an entry stands for; nil for a ServiceEntry that somebody wrote.
func (x poolIndex) poolOf(entry *kinds.Resource) *gatewayapi.Pool {
	if entry.Kind != kindPool {
		return nil
	}
	return x.all.get(entry.Key()).Pool
}

// ofPool makes the service that of a pool, which has one port: that of its endpoints, whichever they have.
func (s *Service) ofPool(p *gatewayapi.Pool) {
	s.Pool = p
	s.Ports = s.Ports[:1]
}

// servedOn are the ports by which each workload is an endpoint: those of the service, or of a pool.
func (s *Service) servedOn() []*Port {
	if s.Pool == nil {
		return s.Ports
	}
	out := make([]*Port, len(s.Pool.Ports))
	for i, number := range s.Pool.Ports {
		port := *s.Ports[0]
		port.Target = number
		out[i] = &port
	}
	return out
}

// dirtyPools notes which pools may stand otherwise: those that were edited, that have other endpoints, or
// whose picker has come, gone or changed.
func (u *apiUpdate) dirtyPools(services Exchange[*Service]) {
	for _, key := range u.mesh.services.pools.movedBy(u.now, services) {
		u.restatedPools[key] = true
	}
}

// movedBy are the pools that may stand otherwise after a step.
func (x poolIndex) movedBy(now configstore.Step, services Exchange[*Service]) (out []kinds.Key) {
	for _, e := range now.Edits(kindPool) {
		out = append(out, cmp.Or(e.After, e.Before).Key())
	}
	if x.all.size == 0 {
		return out
	}
	for _, s := range slices.Concat(services.Gone, services.Come) {
		if s.Pool != nil {
			out = append(out, s.Pool.Key())
		}
		out = append(out, x.picking.get(s.Hostname)...)
	}
	return out
}

// leadsToPool notes that a route leads to a pool, or did.
func (u *apiUpdate) leadsToPool(host string) {
	if !gatewayapi.IsPoolHost(host) {
		return
	}
	for _, s := range u.mesh.services.byHost.get(host) {
		if s.Pool != nil {
			u.restatedPools[s.Pool.Key()] = true
		}
	}
}

// statePools says how pools stand that may stand otherwise.
func (u *apiUpdate) statePools() {
	if len(u.restatedPools) == 0 {
		return
	}
	statuses, faulty := u.statuses.all.edit(), u.faulty.edit()
	for key := range u.restatedPools {
		p := u.mesh.services.pools.all.get(key)
		if p == nil {
			statuses.remove(key)
			faulty.remove(key)
			continue
		}
		fault := u.pickerFault(p)
		gateways := slices.SortedFunc(maps.Keys(u.leadingTo(p.Host())), kinds.Key.Compare)
		u.put(statuses, key, p.Status(gateways, fault))
		problems := p.AllProblems(fault, u.mesh.services.serves(p.Host()))
		faulty.put(key, problems, len(problems) == 0)
	}
	u.statuses.all, u.faulty = statuses.done(), faulty.done()
}

// pickerFault is why the picker of a pool cannot be asked; "" if it can.
func (u *apiUpdate) pickerFault(p *pool) string {
	known, takesCalls := false, false
	for _, s := range u.mesh.services.byHost.get(p.Picker.Host) {
		if port := s.Port(p.Picker.Port); port != nil {
			known, takesCalls = true, takesCalls || port.Protocol.IsHTTP2()
		}
	}
	return p.PickerFault(known, takesCalls)
}

// serves reports whether a service of a host has endpoints.
func (x *serviceIndex) serves(host string) bool {
	return slices.ContainsFunc(x.byHost.get(host), func(s *Service) bool { return len(s.Endpoints) > 0 })
}
