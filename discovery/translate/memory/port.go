package memory

import (
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
	"github.com/pgmesh/pgmesh/discovery/translate/virtualhost"
)

// portHosts are the virtual hosts of a port, in the order of their names. Envoy refuses a
// configuration that has a name or a domain twice. So the first host to claim a domain keeps it.
//
// As long as no claim was refused, the order of claims does not matter, and each host can come, go
// and change by itself. Otherwise all are made anew.
type portHosts struct {
	port      uint32
	services  portServices
	ruled     map[*mesh.VirtualService]knownGroup
	routed    map[string]bool // services that rules route to
	round     int             // how often the groups were listed
	groups    []routeGroup
	spare     []routeGroup // memory for the next groups
	hosts     []virtualhost.Draft
	domains   map[string]bool // of all of them, in lower case; nil before they were made
	contested bool            // a claim was refused
	edited    bool            // hosts, rules and services were edited since the groups were listed
}

// update brings the hosts to what an egress listener has now.
func (p *portHosts) update(v recalling, egress *mesh.Egress) {
	changed := v.memory.changed
	if p.services.egress == nil || p.edited || !slices.Equal(p.services.egress.Services, egress.Services) {
		before := p.services
		p.services = servicesOnPort(egress, p.port)
		changed = func(host string) bool {
			return v.memory.changed(host) || shapeOf(before.byHost[host]) != shapeOf(p.services.byHost[host])
		}
	}
	p.services.egress = egress
	groups := p.routeGroups(v, changed)
	if p.domains == nil || p.contested || p.edited || !p.patch(v, groups) {
		p.rebuild(v, groups)
	}
	p.groups, p.spare, p.edited = groups, p.groups, false
}

func (p *portHosts) rebuild(v recalling, groups []routeGroup) {
	// A map that grows leaves as much garbage as it becomes large, and all views are made at once
	// when proxies come back.
	names := make(map[string]bool, len(groups))
	p.domains, p.contested, p.hosts = make(map[string]bool, usualDomains*len(groups)), false, make([]virtualhost.Draft, 0, len(groups))
	c := claims{
		portHosts: p, known: servicesOf(groups),
		taken: func(name string) bool { was := names[name]; names[name] = true; return was },
		put:   func(h virtualhost.Draft) { p.hosts = append(p.hosts, h) },
	}
	for i := range groups {
		c.claim(v, &groups[i])
	}
	slices.SortStableFunc(p.hosts, virtualhost.Draft.Compare)
}

// usualDomains is how many domains most hosts have: name, name with a dot, short form, address.
const usualDomains = 4

// mostPatched is how many groups may come and go before it is cheaper to make all anew.
const mostPatched = 64

// patch makes what differs between the groups before and now. It reports false if the order of
// claims matters: then nothing that it did is of use.
func (p *portHosts) patch(v recalling, groups []routeGroup) bool {
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
	c := p.latecomers(now)
	if c.comeTooLate() {
		return false
	}
	for i := range now {
		c.claim(v, &now[i])
	}
	return !p.contested
}

// claims give hosts the names and domains that they ask for, if they are free.
type claims struct {
	*portHosts

	known map[string]bool        // the services that claim: no short form may claim their full names
	taken func(name string) bool // reports whether a name was taken, and takes it
	put   func(virtualhost.Draft)
}

// latecomers claim what is still free.
func (p *portHosts) latecomers(groups []routeGroup) claims {
	taken := func(name string) bool { _, found := p.find(name); return found }
	return claims{portHosts: p, known: servicesOf(groups), put: p.insert, taken: taken}
}

// comeTooLate reports whether the full name of one of the services was claimed as the short form of
// another.
func (c claims) comeTooLate() bool {
	for host := range c.known {
		if c.domains[strings.ToLower(naming.AsHost(host))] {
			return true
		}
	}
	return false
}

func servicesOf(groups []routeGroup) map[string]bool {
	hosts := make(map[string]bool, len(groups))
	for _, g := range groups {
		for _, s := range g.services {
			hosts[s.Hostname] = true
		}
	}
	return hosts
}

// claim makes the hosts of a group.
func (c claims) claim(v recalling, g *routeGroup) {
	for _, host := range g.hosts {
		c.claimHost(host, []string{naming.AsHost(host)}, nil, g.routes)
	}
	for _, s := range g.services {
		names := v.memory.domains(v.View, s)
		c.claimHost(s.Hostname, names.all, names.short, g.routes)
	}
}

func (c claims) claimHost(host string, domains, short []string, routes *virtualhost.List) {
	name := naming.HostPort(host, c.port)
	if c.taken(name) {
		c.contested = true
		return
	}
	free := make([]string, 0, len(domains))
	for _, d := range domains {
		key := strings.ToLower(d)
		if c.domains[key] || c.known[d] && slices.Contains(short, d) {
			c.contested = true
			continue
		}
		c.domains[key] = true
		free = append(free, d)
	}
	if len(free) == len(domains) {
		free = slices.Clip(domains) // which domains keeps anyway
	}
	if len(free) > 0 {
		c.put(virtualhost.Draft{Name: name, Domains: free, Routes: []*virtualhost.List{routes}})
	}
}

func (p *portHosts) insert(h virtualhost.Draft) {
	at, _ := slices.BinarySearchFunc(p.hosts, h, virtualhost.Draft.Compare)
	p.hosts = slices.Insert(p.hosts, at, h)
}

// release forgets the hosts of a group with their claims.
func (p *portHosts) release(g *routeGroup) {
	for name := range g.names(p.port) {
		at, found := p.find(name)
		if !found {
			continue
		}
		for _, d := range p.hosts[at].Domains {
			delete(p.domains, strings.ToLower(d))
		}
		p.hosts = slices.Delete(p.hosts, at, at+1)
	}
}

// reroute gives the hosts of a group its new routes.
func (p *portHosts) reroute(before, now *routeGroup) {
	if before.routes == now.routes {
		return
	}
	for name := range now.names(p.port) {
		if at, found := p.find(name); found {
			p.hosts[at].Routes = []*virtualhost.List{now.routes}
		}
	}
}

func (p *portHosts) find(name string) (at int, found bool) {
	return slices.BinarySearchFunc(p.hosts, virtualhost.Draft{Name: name}, virtualhost.Draft.Compare)
}
