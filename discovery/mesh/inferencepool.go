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

// pools are the InferencePools. There are few, so whoever looks for some looks at all of them. A map never
// changes; a step that touches one makes another.
type pools map[kinds.Key]*gatewayapi.Pool

// following returns the pools after a step, and what that changes of the ServiceEntries that they are.
func (p pools) following(now configstore.Step) (pools, []configstore.Edit) {
	changed := p.changed(now)
	if len(changed) == 0 {
		return p, nil
	}
	var edits []configstore.Edit
	out := pools{}
	maps.Copy(out, p)
	for key := range changed {
		was, is := p[key], readPool(now, key)
		delete(out, key)
		if is != nil {
			out[key] = is
		}
		if e := (configstore.Edit{Before: was.Entry(), After: is.Entry()}); e != (configstore.Edit{}) {
			edits = append(edits, e)
		}
	}
	return out, edits
}

// changed are the pools that a step changes, and those whose picker is a ServiceEntry that it changes.
func (p pools) changed(now configstore.Step) map[kinds.Key]bool {
	keys := map[kinds.Key]bool{}
	for _, e := range now.Edits(kindPool) {
		keys[cmp.Or(e.After, e.Before).Key()] = true
	}
	if len(p) == 0 {
		return keys
	}
	edited := map[kinds.Key]bool{}
	for _, e := range now.Edits(kindServiceEntry) {
		edited[cmp.Or(e.After, e.Before).Key()] = true
	}
	for key, one := range p {
		if edited[one.PickerEntry] {
			keys[key] = true
		}
	}
	return keys
}

func readPool(now configstore.Step, key kinds.Key) *gatewayapi.Pool {
	r := now.Get(key)
	if r == nil {
		return nil
	}
	return gatewayapi.ReadPool(r, func(entry kinds.Key) []string { return hostsOfEntry(now, entry) })
}

// movedBy are the pools that may stand otherwise after a step: those that were edited, that have other
// endpoints, or whose picker has come, gone or changed.
func (p pools) movedBy(now configstore.Step, services Exchange[*Service]) map[kinds.Key]bool {
	keys := p.changed(now)
	if len(p) == 0 {
		return keys
	}
	moved := map[string]bool{}
	for _, list := range [][]*Service{services.Gone, services.Come} {
		for _, s := range list {
			moved[s.Hostname] = true
		}
	}
	for key, one := range p {
		if moved[one.Host()] || moved[one.Picker.Host] {
			keys[key] = true
		}
	}
	return keys
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

// leadsToPool notes that a route leads to a pool, or did.
func (u *apiUpdate) leadsToPool(host string) {
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
		p := u.mesh.services.pools[key]
		if p == nil {
			statuses.remove(key)
			faulty.remove(key)
			continue
		}
		fault := u.pickerFault(p)
		everywhere := func(string) bool { return true } // since nobody else has its host
		u.put(statuses, key, p.Status(u.sendingTo(p.Host(), everywhere), fault))
		problems := p.AllProblems(fault, u.mesh.services.serves(p.Host()))
		faulty.put(key, problems, len(problems) == 0)
	}
	u.statuses.all, u.faulty = statuses.done(), faulty.done()
}

// pickerFault is why the picker of a pool cannot be asked; "" if it can.
func (u *apiUpdate) pickerFault(p *gatewayapi.Pool) string {
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
