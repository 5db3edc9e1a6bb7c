package proxy

import "hash/maphash"

// answer processes a response and acknowledges it. Like Envoy, it first subscribes to what the
// response refers to.
func (p *Proxy) answer(r *response) error {
	s := &p.subscriptions[r.kind]
	s.version, s.nonce, s.answered = r.version, r.nonce, true
	var err error
	switch r.kind {
	case Clusters:
		err = p.lead(r, p.clusters, endpointsOf, Endpoints)
	case Listeners:
		err = p.lead(r, p.listeners, routesOf, Routes)
	case Routes:
		err = p.takeRoutes(r)
	case VirtualHosts:
		p.takeVirtualHosts(r)
	}
	if err != nil {
		return err
	}
	for _, n := range r.resources {
		s.hear(n.name)
	}
	for _, n := range r.removed {
		s.hear(n)
	}
	p.keep(r)
	p.requests <- p.form.acknowledge(s)
	p.proceed()
	return nil
}

// proceed subscribes to listeners once the clusters have their endpoints.
func (p *Proxy) proceed() {
	s, endpoints := &p.subscriptions[Listeners], &p.subscriptions[Endpoints]
	if !s.begun && p.subscriptions[Clusters].settled() && (!endpoints.begun || endpoints.settled()) {
		s.begun = true
		p.requests <- p.form.ask(s, nil, nil)
	}
}

// lead subscribes to what the resources of a response refer to, and unsubscribes from what removed
// resources referred to.
func (p *Proxy) lead(r *response, referring map[name][]name, refersTo func([]byte) ([]name, error), to Type) error {
	s := &p.subscriptions[to]
	var added, dropped []name
	gone, again := r.removed, false
	if p.form.whole() {
		gone = missing(referring, r.resources)
	}
	for _, resource := range r.resources {
		now, err := refersTo(resource.body)
		if err != nil {
			return err
		}
		again = p.isOther(r.kind, resource) || again
		s.refer(referring[resource.name], now, &added, &dropped)
		if len(now) == 0 {
			delete(referring, resource.name)
		} else {
			referring[resource.name] = now
		}
	}
	for _, n := range gone {
		s.refer(referring[n], nil, &added, &dropped)
		delete(referring, n)
		if r.kind == Clusters {
			delete(p.sums, n)
		}
	}
	p.drop(to, dropped)
	if len(added)+len(dropped) > 0 || again {
		s.begun = true
		p.requests <- p.form.ask(s, added, dropped)
	}
	return nil
}

// isOther reports whether a cluster changed, in the form of the protocol that repeats unchanged
// clusters. Envoy requests the endpoints of a changed cluster again.
func (p *Proxy) isOther(kind Type, r resource) bool {
	if kind != Clusters || !p.form.whole() {
		return false
	}
	sum := maphash.Bytes(seed, r.body)
	before, known := p.sums[r.name]
	p.sums[r.name] = sum
	return known && before != sum && p.clusters[r.name] != nil
}

var seed = maphash.MakeSeed()

// missing returns the names of a map that are not among the resources.
func missing(of map[name][]name, resources []resource) (gone []name) {
	there := make(map[name]bool, len(resources))
	for _, r := range resources {
		there[r.name] = true
	}
	for n := range of {
		if !there[n] {
			gone = append(gone, n)
		}
	}
	return gone
}

func (p *Proxy) takeRoutes(r *response) error {
	for _, routes := range r.resources {
		hosts, more, err := hostsOf(routes.body)
		if err != nil {
			return err
		}
		p.hosts[routes.name] = hosts
		p.more = p.more || more
	}
	for _, n := range r.removed {
		delete(p.hosts, n)
	}
	if s := &p.subscriptions[VirtualHosts]; p.more && !s.begun {
		s.begun = true
		p.requests <- p.form.ask(s, nil, nil)
	}
	return nil
}

func (p *Proxy) takeVirtualHosts(r *response) {
	for _, host := range r.resources {
		p.virtualHosts[host.name] = true
	}
	for _, n := range r.removed {
		delete(p.virtualHosts, n)
	}
}
