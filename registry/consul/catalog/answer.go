package catalog

import (
	"maps"
	"slices"
	"strings"
)

// names is the answer of /v1/catalog/services: the tags of each service.
type names map[string][]string

// node is one of the answer of /v1/catalog/nodes.
type node struct {
	Node        string
	ModifyIndex uint64
}

// check is one of the answer of /v1/health/state.
type check struct {
	Node, CheckID, ServiceName string
}

// entry is one of the answer of /v1/health/service: an instance, its node and its checks.
type entry struct {
	Node struct {
		Node, Address, Datacenter string
		Meta                      map[string]string
		Locality                  *Locality
	}
	Service struct {
		Kind, ID, Address string
		Port              int
		Tags              []string
		Meta              map[string]string
		Weights           *struct{ Passing, Warning int }
		Locality          *Locality
	}
	Checks []struct{ Status string }
}

// Locality is where Consul says that a node or an instance is.
type Locality struct{ Region, Zone string }

// Status is the worst of the checks of an instance and its node.
type Status int

// The statuses.
const (
	Passing Status = iota
	Warning
	Critical
)

// Instance is an instance of a service.
type Instance struct {
	ID, Node, Datacenter string
	Address              string
	Port                 int
	Tags                 []string
	Meta, NodeMeta       map[string]string
	Locality             Locality
	Weight               int // 0: at its status it gets no requests
	Status               Status
}

// Equal reports whether two say the same.
func (i Instance) Equal(o Instance) bool {
	return i.ID == o.ID && i.Node == o.Node && i.Datacenter == o.Datacenter && i.Address == o.Address && i.Port == o.Port &&
		i.Locality == o.Locality && i.Weight == o.Weight && i.Status == o.Status &&
		slices.Equal(i.Tags, o.Tags) && maps.Equal(i.Meta, o.Meta) && maps.Equal(i.NodeMeta, o.NodeMeta)
}

// Meta of an instance that the mesh has announced, so that the mesh is not told of itself. It is the
// key by which Consul's own integrations say where an instance comes from.
const (
	SourceMeta = "external-source"
	Source     = "pgmesh"
)

// serves reports whether an instance of this kind and source is one for the mesh: sidecars and
// gateways of Consul's own mesh are not, nor what the mesh has announced itself.
func serves(kind, source string) bool { return kind == "" && source != Source }

// instances are those of an answer that are for the mesh. They are in the order of their nodes and ids.
func instances(answer []entry) []Instance {
	all := make([]Instance, 0, len(answer))
	for i := range answer {
		if serves(answer[i].Service.Kind, answer[i].Service.Meta[SourceMeta]) {
			all = append(all, answer[i].instance())
		}
	}
	slices.SortFunc(all, func(a, b Instance) int {
		if order := strings.Compare(a.Node, b.Node); order != 0 {
			return order
		}
		return strings.Compare(a.ID, b.ID)
	})
	return all
}

func (e *entry) instance() Instance {
	i := Instance{
		ID: e.Service.ID, Node: e.Node.Node, Datacenter: e.Node.Datacenter, Address: e.Service.Address, Port: e.Service.Port,
		Tags: e.Service.Tags, Meta: e.Service.Meta, NodeMeta: e.Node.Meta, Status: e.status(), Weight: 1,
	}
	if i.Address == "" {
		i.Address = e.Node.Address
	}
	for _, at := range []*Locality{e.Node.Locality, e.Service.Locality} {
		if at != nil {
			i.Locality = *at
		}
	}
	if w := e.Service.Weights; w != nil {
		if i.Weight = w.Passing; i.Status == Warning {
			i.Weight = w.Warning
		}
	}
	return i
}

func (e *entry) status() Status {
	worst := Passing
	for _, c := range e.Checks {
		worst = max(worst, statusOf(c.Status))
	}
	return worst
}

// statusOf takes what it does not know for the worst: maintenance is one that is gone.
func statusOf(word string) Status {
	switch word {
	case "passing":
		return Passing
	case "warning":
		return Warning
	default:
		return Critical
	}
}
