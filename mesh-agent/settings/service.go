package settings

import (
	"math"
	"strings"

	"go.yaml.in/yaml/v3"

	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

// Service is a service of this machine.
type Service struct {
	Group  string // the WorkloadGroup that describes it
	Ports  map[string]uint32
	Labels map[string]string
	Weight uint32 // 0 for the group's

	Readiness *machinev1.Probe // nil for the group's
	Liveness  *Liveness        // nil for none
}

// Liveness is a liveness probe and the action when it fails.
type Liveness struct {
	Probe  *machinev1.Probe
	Action []string // a program and its arguments
}

func (r *reader) services(n *yaml.Node) (all []Service) {
	lines := map[string]int{}
	r.list(n, "services as a list, each with its group", func(item *yaml.Node) {
		s, whole := r.service(item)
		if line := lines[s.Group]; line > 0 {
			r.problemf(item, "the group %s has a service already, in line %d: a machine is in a group once", s.Group, line)
			return
		}
		if whole {
			lines[s.Group] = item.Line
			all = append(all, s)
		}
	})
	return all
}

// service also reports whether the service has a group, which it needs to be named in errors.
func (r *reader) service(n *yaml.Node) (s Service, whole bool) {
	r.object(n, "field of a service", map[string]func(key, value *yaml.Node){
		"group":     func(key, value *yaml.Node) { s.Group = r.group(key, value) },
		"ports":     func(_, value *yaml.Node) { s.Ports = r.ports(value) },
		"labels":    func(_, value *yaml.Node) { s.Labels = r.textMap("labels", value) },
		"weight":    func(key, value *yaml.Node) { s.Weight = r.number(key.Value, value, 1, math.MaxInt32) },
		"readiness": func(_, value *yaml.Node) { s.Readiness = r.probe(value, nil) },
		"liveness":  func(_, value *yaml.Node) { s.Liveness = r.liveness(value) },
	})
	if n.Kind == yaml.MappingNode && !has(n, "group") {
		r.problemf(n, "which service is this? Name its WorkloadGroup: group: NAME")
	}
	return s, s.Group != ""
}

func (r *reader) group(key, value *yaml.Node) string {
	name := r.text(key.Value, value)
	switch namespace, bare, both := strings.Cut(name, "/"); {
	case both:
		r.problemf(value, "group: write %s without %s/: its namespace is that of the machine", bare, namespace)
	case name == "" && !isNull(value) && value.Kind == yaml.ScalarNode:
		r.problemf(value, "group: expected the name of a WorkloadGroup, not \"\"")
	}
	return name
}

func (r *reader) ports(n *yaml.Node) map[string]uint32 {
	all := map[string]uint32{}
	r.pairs(n, "ports as a map of names to numbers", func(key, value *yaml.Node) {
		all[key.Value] = r.port("ports: "+key.Value, value)
	})
	return all
}

func (r *reader) liveness(n *yaml.Node) *Liveness {
	l := &Liveness{}
	l.Probe = r.probe(n, map[string]func(key, value *yaml.Node){
		"action": func(key, value *yaml.Node) { l.Action = r.command(key.Value, value) },
	})
	if n.Kind == yaml.MappingNode && !has(n, "action") {
		r.problemf(n, "what is to be done when the service does not live? Say it: action: [systemctl, restart, cart]")
	}
	return l
}

func (r *reader) command(name string, n *yaml.Node) []string {
	words := r.texts(name, n)
	if n.Kind == yaml.SequenceNode && (len(words) == 0 || words[0] == "") {
		r.problemf(n, "%s: expected a program and its arguments", name)
	}
	return words
}
