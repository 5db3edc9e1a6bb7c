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

// byNode are all nodes.
func (s *session) byNode() []reading {
	all := make([]reading, len(s.nodes))
	for i, n := range s.nodes {
		all[i] = reading{name: n.Node, later: true, node: true}
	}
	return all
}

// place notes at which nodes a service has instances now.
func (s *session) place(name string, nodes []string) {
	if k := s.services[name]; k != nil {
		for _, n := range k.nodes {
			if s.at[n][name]--; s.at[n][name] > 0 {
				continue
			}
			if delete(s.at[n], name); len(s.at[n]) == 0 {
				delete(s.at, n)
			}
		}
	}
	for _, n := range nodes {
		if s.at[n] == nil {
			s.at[n] = map[string]int{}
		}
		s.at[n][name]++
	}
}

// look asks for the services of a node, and has read those that have changed.
func (s *session) look(at reading) error {
	var found listing
	q := client.Query{Path: "/v1/catalog/node-services/" + escaped(at.name), Datacenter: s.Datacenter}
	if _, err := s.Client.Ask(s.ctx, q, &found); err != nil && !spoilsOne(err) {
		return err
	}
	return s.do(func() error {
		s.compare(s.at[at.name], found)
		s.sweep.lookedAt(at.round)
		return nil
	})
}

// compare has read what has more or fewer instances at a node than are known, or a later one.
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
