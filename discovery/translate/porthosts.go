package translate

import (
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// portHosts are the virtual hosts of a port, in the order of their names. Their names and domains are unique: Envoy refuses a configuration
// where one is twice. The first to claim a domain keeps it.
//
// Where no claim was turned down the order of the claims does not matter, so that each host can come, go and change by itself. Otherwise
// all are made anew.
type portHosts struct {
	port     uint32
	services portServices
	ruled    map[*mesh.VirtualService]*ruledGroup
	routed   map[string]bool // services that rules route to
	goes     int             // how often the groups were listed
	groups   []routeGroup
	spare    []routeGroup // memory for the next groups
	hosts    []virtualHost

	names    map[string]bool
	domains  map[string]bool
	known    map[string]bool // full host names of services, which no short form may claim
	rivalled bool            // a claim was turned down
}

// update brings the hosts to what an egress listener has now.
func (p *portHosts) update(v view, egress *mesh.Egress) {
	changed := v.memory.changed
	if p.services.egress == nil || !slices.Equal(p.services.egress.Services, egress.Services) {
		before := p.services
		p.services = servicesOnPort(egress, p.port)
		changed = func(host string) bool {
			return v.memory.changed(host) || shapeOf(before.byHost[host]) != shapeOf(p.services.byHost[host])
		}
	}
	p.services.egress = egress
	groups := p.routeGroups(v, changed)
	if p.names == nil || p.rivalled || !p.patch(v, groups) {
		p.rebuild(v, groups)
	}
	p.groups, p.spare = groups, p.groups
}

func (p *portHosts) rebuild(v view, groups []routeGroup) {
	p.names, p.domains, p.known = map[string]bool{}, map[string]bool{}, map[string]bool{}
	p.rivalled, p.hosts = false, make([]virtualHost, 0, len(groups))
	for _, g := range groups {
		for _, s := range g.services {
			p.known[s.Hostname] = true
		}
	}
	for i := range groups {
		p.claim(v, &groups[i], func(h virtualHost) { p.hosts = append(p.hosts, h) })
	}
	slices.SortStableFunc(p.hosts, virtualHost.compare)
}

// mostPatched is how many groups may come and go before it is as well to make all anew.
const mostPatched = 64

// patch makes what changes between the groups that there were and those that there are. It reports false where order matters; then
// nothing of what it did is of use.
func (p *portHosts) patch(v view, groups []routeGroup) bool {
	before, now := p.groups, groups
	for len(before) > 0 && len(now) > 0 && before[0].alike(&now[0]) {
		p.reroute(&before[0], &now[0])
		before, now = before[1:], now[1:]
	}
	for len(before) > 0 && len(now) > 0 && before[len(before)-1].alike(&now[len(now)-1]) {
		p.reroute(&before[len(before)-1], &now[len(now)-1])
		before, now = before[:len(before)-1], now[:len(now)-1]
	}
	if len(before)+len(now) > mostPatched {
		return false
	}
	for i := range before {
		p.release(&before[i])
	}
	for _, g := range now {
		for _, s := range g.services {
			if p.known[s.Hostname] || p.domains[strings.ToLower(s.Hostname)] {
				return false
			}
		}
	}
	for i := range now {
		for _, s := range now[i].services {
			p.known[s.Hostname] = true
		}
	}
	for i := range now {
		p.claim(v, &now[i], p.insert)
	}
	return !p.rivalled
}

// claim makes the hosts of a group.
func (p *portHosts) claim(v view, g *routeGroup, put func(virtualHost)) {
	for _, host := range g.hosts {
		p.claimHost(host, []string{asHost(host)}, nil, g.routes, put)
	}
	for _, s := range g.services {
		names := v.memory.domains(v, s)
		p.claimHost(s.Hostname, names.all, names.short, g.routes, put)
	}
}

func (p *portHosts) claimHost(host string, domains, short []string, routes *routeList, put func(virtualHost)) {
	name := hostPort(host, p.port)
	if p.names[name] {
		p.rivalled = true
		return
	}
	p.names[name] = true
	free := make([]string, 0, len(domains))
	for _, d := range domains {
		key := strings.ToLower(d)
		if p.domains[key] || p.known[d] && slices.Contains(short, d) {
			p.rivalled = true
			continue
		}
		p.domains[key] = true
		free = append(free, d)
	}
	if len(free) > 0 {
		put(virtualHost{name: name, domains: free, routes: []*routeList{routes}})
	}
}

func (p *portHosts) insert(h virtualHost) {
	at, _ := slices.BinarySearchFunc(p.hosts, h, virtualHost.compare)
	p.hosts = slices.Insert(p.hosts, at, h)
}

// release forgets the hosts of a group, each of which has what it claimed.
func (p *portHosts) release(g *routeGroup) {
	for name := range g.names(p.port) {
		at, found := p.find(name)
		if !found {
			continue
		}
		for _, d := range p.hosts[at].domains {
			delete(p.domains, strings.ToLower(d))
		}
		delete(p.names, name)
		p.hosts = slices.Delete(p.hosts, at, at+1)
	}
	for _, s := range g.services {
		delete(p.known, s.Hostname)
	}
}

// reroute gives the hosts of a group its new routes.
func (p *portHosts) reroute(before, now *routeGroup) {
	if before.routes == now.routes {
		return
	}
	for name := range now.names(p.port) {
		if at, found := p.find(name); found {
			p.hosts[at].routes = []*routeList{now.routes}
		}
	}
}

func (p *portHosts) find(name string) (at int, found bool) {
	return slices.BinarySearchFunc(p.hosts, virtualHost{name: name}, virtualHost.compare)
}
