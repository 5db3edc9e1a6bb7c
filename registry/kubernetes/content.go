package kubernetes

import (
	"cmp"
	"maps"
	"slices"

	"github.com/pgmesh/pgmesh/registry/service"
)

// content is what is known of the services of a cluster, with as little of each object as is needed.
type content struct {
	*settings

	services map[key]*serviceObject
	slices   map[key]*slice
	of       map[key][]*slice // by the service
	pods     map[key]*pod
	nodes    map[key]*node
	onNodes  map[key]bool // gateways of networks that are reached at nodes

	// touched are services that have to be made anew.
	touched map[key]bool
	// changed is told Pods as they were and as they are. It may be nil.
	changed func(namespace string, before, now *pod)
	// moved is told that some Node is elsewhere. It may be nil.
	moved func()
}

func newContent(s *settings) *content {
	return &content{
		settings: s, services: map[key]*serviceObject{}, slices: map[key]*slice{}, of: map[key][]*slice{},
		pods: map[key]*pod{}, nodes: map[key]*node{}, onNodes: map[key]bool{}, touched: map[key]bool{},
	}
}

// slice is an EndpointSlice: a part of the endpoints of a service, all with the same ports.
type slice struct {
	key, service key
	family       string // IPv4, IPv6 or FQDN
	ports        []slicePort
	endpoints    []endpoint
}

type slicePort struct {
	name   string
	number uint32
}

// endpoint is one of a slice.
type endpoint struct {
	address, hostname string
	node, zone        string
	pod               string // in the namespace of the slice; "" if it is none
	health            service.Health
}

// pod is what a Pod says of the endpoints at it.
type pod struct {
	there   bool // else it is only named
	labels  map[string]string
	account string
	member  bool // it has a sidecar
	address string
	node    string
	health  service.Health
	slices  []*slice
}

func (p *pod) same(as *pod) bool {
	return p.there == as.there && p.account == as.account && p.member == as.member &&
		p.address == as.address && p.node == as.node && p.health == as.health && maps.Equal(p.labels, as.labels)
}

// node is where a Node is.
type node struct {
	region, zone, subzone, hostname string

	outer  string            // the address by which others than the cluster reach it
	labels map[string]string // of one with such an address
}

func (n *node) same(as *node) bool {
	return n.region == as.region && n.zone == as.zone && n.subzone == as.subzone && n.hostname == as.hostname &&
		n.outer == as.outer && maps.Equal(n.labels, as.labels)
}

// setService takes a Service; nil removes it.
func (c *content) setService(k key, o *serviceObject) {
	delete(c.services, k)
	delete(c.onNodes, k)
	if o != nil {
		c.services[k] = o
		if o.leads() && o.atNodes() {
			c.onNodes[k] = true
		}
	}
	c.touched[k] = true
}

// setSlice takes an EndpointSlice; nil removes it.
func (c *content) setSlice(k key, now *slice) {
	if before := c.slices[k]; before != nil {
		c.unlink(before)
		delete(c.slices, k)
	}
	if now != nil && now.service.name != "" {
		c.slices[k] = now
		c.link(now)
	}
}

func (c *content) link(s *slice) {
	c.of[s.service] = append(c.of[s.service], s)
	for name := range s.podNames() {
		k := key{s.key.namespace, name}
		if c.pods[k] == nil {
			c.pods[k] = &pod{}
		}
		c.pods[k].slices = append(c.pods[k].slices, s)
	}
	c.touched[s.service] = true
}

func (c *content) unlink(s *slice) {
	same := func(other *slice) bool { return other == s }
	if c.of[s.service] = slices.DeleteFunc(c.of[s.service], same); len(c.of[s.service]) == 0 {
		delete(c.of, s.service)
	}
	for name := range s.podNames() {
		k := key{s.key.namespace, name}
		p := c.pods[k]
		if p.slices = slices.DeleteFunc(p.slices, same); len(p.slices) == 0 && !p.there {
			delete(c.pods, k)
		}
	}
	c.touched[s.service] = true
}

// podNames are the Pods at its endpoints, each once.
func (s *slice) podNames() map[string]bool {
	names := make(map[string]bool, len(s.endpoints))
	for i := range s.endpoints {
		if name := s.endpoints[i].pod; name != "" {
			names[name] = true
		}
	}
	return names
}

// setPod takes a Pod; nil removes it.
func (c *content) setPod(k key, now *pod) {
	before := c.pods[k]
	if before == nil {
		if now != nil {
			c.pods[k] = now
			c.tell(k, &pod{}, now)
		}
		return
	}
	if now = cmp.Or(now, &pod{}); now.same(before) {
		return
	}
	c.tell(k, before, now)
	now.slices = before.slices
	if c.pods[k] = now; !now.there && len(now.slices) == 0 {
		delete(c.pods, k)
	}
	for _, s := range now.slices {
		c.touched[s.service] = true
	}
}

func (c *content) tell(k key, before, now *pod) {
	if c.changed != nil {
		c.changed(k.namespace, before, now)
	}
}

// setNode takes a Node; nil removes it. Nodes seldom move.
func (c *content) setNode(k key, now *node) {
	before := c.nodes[k]
	if before == nil && now == nil || before != nil && now != nil && before.same(now) {
		return
	}
	if c.nodes[k] = now; now == nil {
		delete(c.nodes, k)
	}
	for _, s := range c.slices {
		if slices.ContainsFunc(s.endpoints, func(e endpoint) bool { return e.node == k.name }) {
			c.touched[s.service] = true
		}
	}
	maps.Copy(c.touched, c.onNodes)
	if c.moved != nil {
		c.moved()
	}
}

// at is where a Node is, as far as that is known.
func (c *content) at(name string) node {
	if n := c.nodes[key{name: name}]; n != nil {
		return *n
	}
	return node{}
}
