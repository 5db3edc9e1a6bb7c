package memory

import (
	"cmp"
	"slices"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/route"
	"github.com/pgmesh/pgmesh/discovery/translate/scoped"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
	"github.com/pgmesh/pgmesh/discovery/translate/virtualhost"
)

// boundRules are the rules that the routes of a router's servers were made from.
type boundRules struct {
	servers     []*mesh.Server
	rules       [][]*mesh.VirtualService // of each server
	misdirected mesh.Misdirected
	scoped      bool
	// byHost has the rules for each host, server by server in their order, once they are sorted. It
	// is nil if a host depends on more than its rules.
	byHost map[string][]boundRule
	sorted bool

	came, went []boundRule // since the rules before
}

type boundRule struct {
	server int
	rule   *mesh.VirtualService
}

// bound finds the rules of a route configuration.
func bound(v view.View, configuration string) *boundRules {
	f := v.Mesh.Frontend(v.Proxy)
	b := &boundRules{servers: f.Routes[configuration], misdirected: f.Misdirected(configuration), scoped: scoped.On(v, configuration)}
	for _, s := range b.servers {
		b.rules = append(b.rules, v.Mesh.VirtualServicesOf(s.Gateway, v.Proxy.Namespace))
	}
	return b
}

// sort finds the rules for each host.
func (b *boundRules) sort() {
	if b.sorted || !b.scoped {
		return
	}
	b.sorted = true
	b.byHost = map[string][]boundRule{}
	for i, s := range b.servers {
		for _, rule := range b.rules[i] {
			for _, name := range s.HostsFor(rule) {
				b.byHost[name] = append(b.byHost[name], boundRule{i, rule})
			}
		}
		if s.Spec.GetTls().GetHttpsRedirect() { // its hosts are there without rules
			b.byHost = nil
			return
		}
	}
}

// ByHost has the routes of some hosts, as scopes and as virtual hosts. The names are the same.
type ByHost struct {
	Scopes []scoped.Route
	Hosts  []virtualhost.Host
	Gone   []string
}

// ReroutedByHost returns the hosts whose routes differ, and the names of those that are gone. It is
// for a router that still has the services and policies of when the memory made its divisions. So
// the most frequent change of a gateway, that of rules for exact hosts, costs only what it changes.
// It reports false if more may have changed: then all divisions have to be made.
func (m *Memory) ReroutedByHost(v view.View) (changed ByHost, ok bool) {
	names := route.Names(v)
	if v.Sidecar() || len(names) != len(m.bound) {
		return changed, false
	}
	now, touched := map[string]*boundRules{}, map[string]map[string]bool{}
	for _, name := range names {
		before := m.bound[name]
		if before == nil {
			return changed, false
		}
		before.sort()
		now[name] = bound(v, name)
		if touched[name], ok = now[name].hostsAfter(before); !ok {
			return changed, false
		}
	}
	for _, name := range names {
		now[name].follow(recalling{v, m}, m.bound[name])
		for host := range touched[name] {
			one := scoped.Route{Base: route.Configuration(v, name), Host: host, CountsAttempts: v.CountsAttempts()}
			if h, there := now[name].virtualHost(recalling{v, m}, host); there {
				one.Hosts = []virtualhost.Draft{h}
				changed.Scopes, changed.Hosts = append(changed.Scopes, one), append(changed.Hosts, one.AsHost())
			} else {
				changed.Gone = append(changed.Gone, one.Name())
			}
		}
		m.bound[name] = now[name]
	}
	return changed, true
}

// hostsAfter returns the hosts that have other rules than before. It reports false if more may have
// changed.
func (b *boundRules) hostsAfter(before *boundRules) (hosts map[string]bool, ok bool) {
	if b.scoped != before.scoped || !slices.Equal(b.servers, before.servers) || !b.misdirected.Equal(before.misdirected) {
		return nil, false
	}
	hosts = map[string]bool{}
	for i, s := range b.servers {
		rules := mesh.ExchangeOf(before.rules[i], b.rules[i])
		if !rules.KeepsOrder(before.rules[i], b.rules[i]) {
			return nil, false
		}
		b.went, b.came = append(b.went, boundTo(i, rules.Gone)...), append(b.came, boundTo(i, rules.Come)...)
		for _, rule := range slices.Concat(rules.Gone, rules.Come) {
			for _, name := range s.HostsFor(rule) {
				if before.byHost == nil || !scoped.IsExact(name) || b.misdirected.Names(name) {
					return nil, false
				}
				hosts[name] = true
			}
		}
	}
	return hosts, true
}

func boundTo(server int, rules []*mesh.VirtualService) (out []boundRule) {
	for _, rule := range rules {
		out = append(out, boundRule{server, rule})
	}
	return out
}

// follow takes the rules for each host over from before, applies what has changed, and forgets the
// routes of rules that are gone.
func (b *boundRules) follow(v recalling, before *boundRules) {
	b.byHost, b.sorted = before.byHost, before.sorted
	for _, gone := range b.went {
		s := b.servers[gone.server]
		delete(v.memory.now.ruled, keyOf(onServer(v.View, s, gone.rule)))
		for _, host := range s.HostsFor(gone.rule) {
			b.byHost[host] = slices.DeleteFunc(b.byHost[host], func(r boundRule) bool { return r == gone })
			if len(b.byHost[host]) == 0 {
				delete(b.byHost, host)
			}
		}
	}
	for _, fresh := range b.came {
		for _, host := range b.servers[fresh.server].HostsFor(fresh.rule) {
			b.byHost[host] = append(b.byHost[host], fresh)
			slices.SortFunc(b.byHost[host], func(x, y boundRule) int {
				return cmp.Or(cmp.Compare(x.server, y.server), cmp.Compare(b.place(x), b.place(y)))
			})
		}
	}
	b.came, b.went = nil, nil
}

// place is the position of a rule among those of its server.
func (b *boundRules) place(r boundRule) int { return slices.Index(b.rules[r.server], r.rule) }

// virtualHost returns that of a host; false if no rule has routes for it.
func (b *boundRules) virtualHost(v recalling, host string) (out virtualhost.Draft, there bool) {
	one := &GatewayHosts{recalling: v, ByName: map[string]*virtualhost.Draft{}}
	for _, bound := range b.byHost[host] {
		one.bind(b.servers[bound.server], bound.rule, []string{host})
	}
	if h := one.ByName[host]; h != nil {
		return *h, true
	}
	return out, false
}
