package kubernetes

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/registry/service"
)

// A ServiceEntry of the cluster whose workloadSelector chooses Pods lists them as endpoints, and goes
// on to select WorkloadEntries by an annotation: what a Service is made of.

// choosing are the ServiceEntries that choose workloads, with their selectors, by namespace.
type choosing map[string]map[kinds.Key]map[string]string

// set takes a ServiceEntry.
func (c choosing) set(r *kinds.Resource) {
	k := r.Key()
	entry, is := r.Spec.Message().(*networking.ServiceEntry)
	if c.remove(k); !is || len(entry.GetWorkloadSelector().GetLabels()) == 0 {
		return
	}
	if c[k.Namespace] == nil {
		c[k.Namespace] = map[kinds.Key]map[string]string{}
	}
	c[k.Namespace][k] = entry.GetWorkloadSelector().GetLabels()
}

func (c choosing) remove(k kinds.Key) {
	if delete(c[k.Namespace], k); len(c[k.Namespace]) == 0 {
		delete(c, k.Namespace)
	}
}

// podChanged has the ServiceEntries made anew that choose a Pod as it was or as it is.
func (m *mesh) podChanged(namespace string, before, now *pod) {
	for k, selector := range m.choosing[namespace] {
		if kinds.LabelsWithin(selector, before.labels) && before.there || kinds.LabelsWithin(selector, now.labels) && now.there {
			m.altered[k] = true
		}
	}
}

// configured is what a resource of the cluster becomes.
func (m *mesh) configured(k kinds.Key) *kinds.Resource {
	r, selector := m.config[k.Kind][k], m.choosing[k.Namespace][k]
	if r == nil || selector == nil {
		return r
	}
	chosen := m.content.chosen(k.Namespace, selector)
	if len(chosen) == 0 {
		return r
	}
	return m.content.listing(r, selector, chosen)
}

// chosen are the Pods of a namespace with these labels that can be asked, in the order of their names.
func (c *content) chosen(namespace string, selector map[string]string) []*pod {
	found := map[string]*pod{}
	for k, p := range c.pods {
		if k.namespace == namespace && p.there && p.address != "" && kinds.LabelsWithin(selector, p.labels) {
			found[k.name] = p
		}
	}
	out := make([]*pod, 0, len(found))
	for _, name := range slices.Sorted(maps.Keys(found)) {
		out = append(out, found[name])
	}
	return out
}

// listing is a ServiceEntry that lists Pods, and selects workloads beside them.
func (c *content) listing(r *kinds.Resource, selector map[string]string, pods []*pod) *kinds.Resource {
	entry := proto.CloneOf(r.Spec.Message().(*networking.ServiceEntry))
	entry.WorkloadSelector = nil
	for _, p := range pods {
		entry.Endpoints = append(entry.Endpoints, service.Endpoint(c.alone(p)))
	}
	out := *r
	out.Annotations, out.Spec = selecting(r.Annotations, selector), kinds.SpecOf(entry)
	return &out
}

// alone is a Pod as an instance of no Service.
func (c *content) alone(p *pod) service.Instance {
	e := endpoint{address: p.address, node: p.node, health: p.health}
	i := service.Instance{Address: p.address, Health: p.health, Network: c.network, Labels: p.labels, Locality: c.locality(&e, p.labels)}
	if p.labels[networkLabel] != "" {
		i.Network = p.labels[networkLabel]
	}
	if p.member {
		i.Account = p.account
	}
	return i
}
