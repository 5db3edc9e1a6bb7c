package kubernetes

import (
	"cmp"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/registry"
	"github.com/pgmesh/pgmesh/registry/service"
)

// A ServiceEntry of the cluster whose workloadSelector chooses Pods lists them as endpoints, and goes
// on to select WorkloadEntries by an annotation: what a Service is made of. An InferencePool has no room
// for endpoints, so it has them in an annotation, and selects by its own selector.

// choosing are the resources that choose workloads, with their selectors, by namespace.
type choosing map[string]map[kinds.Key]map[string]string

// set takes a resource of the cluster.
func (c choosing) set(r *kinds.Resource) {
	k, selector := r.Key(), selectorOf(r)
	if c.remove(k); len(selector) == 0 {
		return
	}
	if c[k.Namespace] == nil {
		c[k.Namespace] = map[kinds.Key]map[string]string{}
	}
	c[k.Namespace][k] = selector
}

// selectorOf are the labels by which a resource chooses workloads, if it does.
func selectorOf(r *kinds.Resource) map[string]string {
	switch spec := r.Spec.Message().(type) {
	case *networking.ServiceEntry:
		return spec.GetWorkloadSelector().GetLabels()
	case *structpb.Struct:
		if isPool(r.Kind) {
			return texts(spec.GetFields()["selector"].GetStructValue().GetFields()["matchLabels"])
		}
	}
	return nil
}

func isPool(k *kinds.Kind) bool {
	return k.Group == "inference.networking.k8s.io" && k.Name == "InferencePool"
}

func texts(of *structpb.Value) map[string]string {
	out := map[string]string{}
	for name, value := range of.GetStructValue().GetFields() {
		out[name] = value.GetStringValue()
	}
	return out
}

func (c choosing) remove(k kinds.Key) {
	if delete(c[k.Namespace], k); len(c[k.Namespace]) == 0 {
		delete(c, k.Namespace)
	}
}

// podChanged has the resources made anew that choose a Pod as it was or as it is.
func (m *mesh) podChanged(namespace string, before, now *pod) {
	for k, selector := range m.choosing[namespace] {
		if kinds.LabelsWithin(selector, before.labels) && before.there || kinds.LabelsWithin(selector, now.labels) && now.there {
			m.altered[k] = true
		}
	}
}

// nodeMoved has all made anew that list Pods, and so say where those are. What says the same stays.
func (m *mesh) nodeMoved() {
	for k := range m.listing {
		m.altered[k] = true
	}
}

// configured is what a resource of the cluster has become, as it was told.
func (m *mesh) configured(k kinds.Key) *kinds.Resource {
	return cmp.Or(m.listing[k], m.config[k.Kind][k])
}

// choose has a resource list the Pods that it chooses by now. It stays the same one for as long as they do:
// what became of it is said of the one that was told.
func (m *mesh) choose(k kinds.Key) {
	r, selector, had := m.config[k.Kind][k], m.choosing[k.Namespace][k], m.listing[k]
	if delete(m.listing, k); r == nil || selector == nil {
		return
	}
	if chosen := m.content.chosen(k.Namespace, selector); len(chosen) > 0 {
		is := m.content.listing(r, selector, chosen)
		if had != nil && registry.Same(had, is) {
			is = had
		}
		m.listing[k] = is
	}
	m.statuses.renew(k, m.configured(k))
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

// listing is a resource that lists Pods, and selects workloads beside them.
func (c *content) listing(r *kinds.Resource, selector map[string]string, pods []*pod) *kinds.Resource {
	endpoints := make([]*networking.WorkloadEntry, len(pods))
	for i, p := range pods {
		endpoints[i] = service.Endpoint(c.alone(p))
	}
	out := *r
	spec, is := r.Spec.Message().(*networking.ServiceEntry)
	if !is {
		out.Annotations = maps.Clone(r.Annotations)
		out.Annotations[kinds.OriginEndpointsAnnotation] = kinds.WrittenEndpoints(endpoints)
		return &out
	}
	entry := proto.CloneOf(spec)
	entry.WorkloadSelector, entry.Endpoints = nil, append(entry.GetEndpoints(), endpoints...)
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
