package catalog

import (
	"strings"

	"github.com/pgmesh/pgmesh/registry/consul/client"
)

// listing is the answer of /v1/catalog/node-services.
type listing struct {
	Services []struct {
		Kind, Service string
		ModifyIndex   uint64
		Meta          struct { // alone of what may be much
			Source string `json:"external-source"`
		}
	}
}

// byNode are all nodes, and what is known to be there.
func (s *session) byNode() (all []reading, at map[string]map[string]int) {
	at = make(map[string]map[string]int, len(s.nodes))
	for _, n := range s.nodes {
		at[n.Node] = map[string]int{}
		all = append(all, reading{name: n.Node, later: true, node: true})
	}
	for name, k := range s.services {
		for _, n := range k.nodes {
			if at[n] != nil {
				at[n][name]++
			}
		}
	}
	return all, at
}

// look asks for the services of a node, and has read those that have changed.
func (s *session) look(node string) error {
	var found listing
	q := client.Query{Path: "/v1/catalog/node-services/" + escaped(node), Datacenter: s.Datacenter}
	if _, err := s.Client.Ask(s.ctx, q, &found); err != nil && !spoilsOne(err) {
		return err
	}
	return s.do(func() error {
		s.compare(s.sweep.at[node], found)
		s.sweep.lookedAt(s)
		return nil
	})
}

// compare has read what has more or fewer instances at a node than were known, or a later one. What
// has changed since the sweep began was read already, and may be once more.
func (s *session) compare(known map[string]int, found listing) {
	there := map[string]int{}
	for _, i := range found.Services {
		name := strings.ToLower(i.Service)
		if serves(i.Kind, i.Meta.Source) {
			there[name]++
		}
		if i.ModifyIndex > s.index(name) {
			s.queue.readNow(name)
		}
	}
	for name, many := range there {
		if known[name] != many {
			s.queue.readNow(name)
		}
	}
	for name := range known {
		if there[name] == 0 {
			s.queue.readNow(name)
		}
	}
}
