package mesh

import (
	"maps"
	"slices"

	"github.com/pgmesh/pgmesh/kinds"
)

// ScopeCount counts the resources that what a scope shows is made from. It goes with the scope from
// one state of the mesh to the next, and then looks only at what differs.
type ScopeCount struct {
	scope *Scope // nil at first

	// namespaces counts the services that the scope shows of each.
	namespaces map[string]int
	// chosen are the hosts with rules for selected workloads.
	chosen map[string]bool
	// peers are the PeerAuthentications that count, of all these namespaces. They are read again if
	// there are others than in peersOf, or moved says that it shows other namespaces.
	peers   map[kinds.Key]bool
	peersOf *peerAuthenticationIndex
	moved   bool
}

// NewScopeCount returns one that sees nothing yet.
func NewScopeCount() *ScopeCount {
	return &ScopeCount{namespaces: map[string]int{}, chosen: map[string]bool{}, peers: map[kinds.Key]bool{}}
}

// Scope returns the one that was followed last; nil for none.
func (x *ScopeCount) Scope() *Scope { return x.scope }

// Follow goes on to another scope of the same name, at a mesh. Since is how it differs from the one
// before, and nil if that is not known. For each resource that is shown more or less often than
// before, it calls count with the difference: first for those that are shown more often.
func (x *ScopeCount) Follow(m *Mesh, to *Scope, since *ScopeChange, known *Differences, count func(kinds.Key, int)) {
	t := tally{}
	switch was := x.scope; {
	case was == to:
	case was == nil || was.Sidecar != to.Sidecar:
		x.scope = to
		x.whole(to, known, t, 1)
		x.whole(was, known, t, -1)
	default:
		if since == nil {
			since = to.Since(was)
		}
		x.scope = to
		x.change(was, since, known, t)
	}
	x.countPeers(m, t)
	t.each(count)
}

// whole counts all that a scope shows, which may be nil.
func (x *ScopeCount) whole(s *Scope, known *Differences, t tally, n int) {
	if s == nil {
		return
	}
	if s.Sidecar != nil {
		t[s.Sidecar.Key()] += n
	}
	for _, e := range s.Egress {
		x.services(e.Services, known, t, n)
		if !s.router {
			t.rules(e.VirtualServices, n)
		}
	}
	x.services(s.Services, known, t, n)
	for host, rules := range s.rules.each() {
		t.add(rulesOf(rules), n)
		x.choose(host)
	}
	for _, held := range s.policies.each() {
		t.add(held.From, n)
	}
}

func (x *ScopeCount) services(list []*Service, known *Differences, t tally, n int) {
	for _, s := range list {
		t.add(known.madeFrom(s), n)
		before := x.namespaces[s.Namespace]
		x.namespaces[s.Namespace] = before + n
		x.moved = x.moved || before == 0 || before+n == 0
	}
}

// change counts what differs from the scope before.
func (x *ScopeCount) change(was *Scope, since *ScopeChange, known *Differences, t tally) {
	for _, e := range since.Egress {
		x.exchange(e.Services.Gone, e.Services.Come, known, t)
		if !x.scope.router {
			t.rules(e.VirtualServices.Come, 1)
			t.rules(e.VirtualServices.Gone, -1)
		}
	}
	for _, host := range slices.Compact(slices.Sorted(slices.Values(since.Hosts))) {
		before, now := was.Service(host), x.scope.Service(host)
		if before != now {
			x.exchange(some(before), some(now), known, t)
		}
		t.add(rulesOf(x.scope.rules.get(host)), 1)
		t.add(rulesOf(was.rules.get(host)), -1)
		t.add(x.scope.policies.get(host).from(), 1)
		t.add(was.policies.get(host).from(), -1)
		x.choose(host)
	}
}

// some is a list of what there is, if there is something.
func some[T any](one *T) []*T {
	if one == nil {
		return nil
	}
	return []*T{one}
}

// exchange counts the services that went and came. Those of one entry and host mostly are made from
// the same.
func (x *ScopeCount) exchange(gone, come []*Service, known *Differences, t tally) {
	type named struct {
		entry kinds.Key
		host  string
	}
	were := make(map[named]*Service, len(gone))
	for _, s := range gone {
		were[named{s.Entry.Key(), s.Hostname}] = s
	}
	var others []*Service
	for _, s := range come {
		of := named{s.Entry.Key(), s.Hostname}
		if was := were[of]; was != nil {
			delete(were, of)
			d := known.between(was, s)
			t.add(d.Come, 1)
			t.add(d.Gone, -1)
		} else {
			others = append(others, s)
		}
	}
	x.services(others, known, t, 1)
	x.services(slices.Collect(maps.Values(were)), known, t, -1)
}

// choose notes whether the host has rules for selected workloads.
func (x *ScopeCount) choose(host string) {
	if slices.ContainsFunc(x.scope.rules.get(host), (*DestinationRule).forWorkloads) {
		x.chosen[host] = true
	} else {
		delete(x.chosen, host)
	}
}

// countPeers counts the PeerAuthentications of the namespaces that the scope shows services of.
func (x *ScopeCount) countPeers(m *Mesh, t tally) {
	if !x.moved && x.peersOf == m.peers {
		return
	}
	now := map[kinds.Key]bool{}
	for namespace, n := range x.namespaces {
		if n == 0 {
			delete(x.namespaces, namespace)
			continue
		}
		if namespace != m.peers.root {
			for _, key := range m.peers.byNamespace[namespace].keys() {
				now[key] = true
			}
		}
	}
	for key := range now {
		if !x.peers[key] {
			t[key]++
		}
	}
	for key := range x.peers {
		if !now[key] {
			t[key]--
		}
	}
	x.peers, x.peersOf, x.moved = now, m.peers, false
}

// shows reports whether the scope shows the service of a target.
func (x *ScopeCount) shows(t Target) bool {
	s := x.scope.Service(t.Service.Hostname)
	return s != nil && s.Namespace == t.Service.Namespace
}

// Chosen reports whether some rules of the scope are for selected workloads.
func (x *ScopeCount) Chosen() bool { return len(x.chosen) > 0 }

// tally counts resources.
type tally map[kinds.Key]int

func (t tally) add(keys []kinds.Key, n int) {
	for _, key := range keys {
		t[key] += n
	}
}

func (t tally) rules(list []*VirtualService, n int) {
	for _, vs := range list {
		t.add(vs.MadeFrom(), n)
	}
}

// each calls count for what is not 0, and first for what is more.
func (t tally) each(count func(kinds.Key, int)) {
	for key, n := range t {
		if n > 0 {
			count(key, n)
		}
	}
	for key, n := range t {
		if n < 0 {
			count(key, n)
		}
	}
}

// Differences remembers what services are made from, and how that differs, for as long as several
// counts follow the same changes.
type Differences struct {
	of   map[*Service][]kinds.Key
	made map[[2]*Service]Exchange[kinds.Key]
}

// NewDifferences returns one that remembers nothing yet.
func NewDifferences() *Differences {
	return &Differences{of: map[*Service][]kinds.Key{}, made: map[[2]*Service]Exchange[kinds.Key]{}}
}

func (d *Differences) madeFrom(s *Service) []kinds.Key {
	keys, known := d.of[s]
	if !known {
		keys = s.MadeFrom()
		d.of[s] = keys
	}
	return keys
}

func (d *Differences) between(was, is *Service) Exchange[kinds.Key] {
	x, known := d.made[[2]*Service{was, is}]
	if !known {
		x = ExchangeOf(d.madeFrom(was), d.madeFrom(is))
		d.made[[2]*Service{was, is}] = x
	}
	return x
}
