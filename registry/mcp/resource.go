package mcp

import (
	"maps"

	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/registry/service"
)

// withoutOrigin is a resource of which nobody says where it comes from.
func withoutOrigin(r *kinds.Resource) *kinds.Resource {
	out := *r
	out.Annotations = kinds.WithoutOrigin(r.Annotations)
	return &out
}

// make is what the mesh has of a resource of the server; nil if it has nothing of it.
func (m *mesh) make(r *kinds.Resource) *kinds.Resource {
	if r == nil || !m.takes(r.Key()) || m.chain.circular(r.Origin()) {
		return nil
	}
	out := *r
	out.Version = ""
	out.Annotations = m.annotations(r)
	if r.Kind == serviceEntry && !m.service(&out) {
		return nil
	}
	return &out
}

// annotations are those of a resource here. Of what says where it comes from at the server, this stays:
//   - what to look for there, with the server's own registry first, so that all that comes from one
//     begins alike;
//   - the set of clusters, if it is the one that the URL names: who is of a set has endpoints among
//     those of services that count before his;
//   - the labels of its namespace there, which Gateways choose routes by, as they do by the namespace
//     itself;
//   - the Pods that an InferencePool selects there, as ServiceEntries keep their endpoints.
//
// Ranks are those of the server's registries, and authorities say whom to trust: both are decided
// here.
func (m *mesh) annotations(r *kinds.Resource) map[string]string {
	out := maps.Clone(kinds.WithoutOrigin(r.Annotations))
	if out == nil {
		out = map[string]string{}
	}
	out[kinds.OriginEntryAnnotation] = entryOf(r)
	if m.set != "" && r.OriginSet() == m.set {
		out[kinds.OriginSetAnnotation] = m.set
	}
	for _, name := range []string{kinds.OriginNamespaceAnnotation, kinds.OriginEndpointsAnnotation} {
		if said := r.Annotations[name]; said != "" {
			out[name] = said
		}
	}
	return out
}

// entryOf is what people have to look for at the server: the registry that it has the resource from,
// with the entry there, or the resource itself.
func entryOf(r *kinds.Resource) string {
	origin, entry := r.Origin(), r.Annotations[kinds.OriginEntryAnnotation]
	switch {
	case origin == "":
		return r.Key().String()
	case entry == "":
		return origin + "/" + r.Key().String()
	}
	return origin + "/" + entry
}

// service makes a ServiceEntry one of the registry's services, under its name. It reports whether any
// host is left to it.
func (m *mesh) service(r *kinds.Resource) bool {
	there := m.has[r.Key()]
	r.Name = service.Name(m.name, r.Name)
	spec, is := there.Spec.Message().(*networking.ServiceEntry)
	if !is {
		return true
	}
	hosts := m.claims.hosts(there)
	selector, selects := selectorOf(there)
	if len(hosts) == len(spec.GetHosts()) && !selects {
		return true
	}
	entry := proto.CloneOf(spec)
	if entry.Hosts = hosts; selects {
		delete(r.Annotations, kinds.SelectorAnnotation)
		m.inline(entry, r.Namespace, selector)
	}
	r.Spec = kinds.SpecOf(entry)
	return len(hosts) > 0
}

// inline has a ServiceEntry list the workloads that it selects at the server. One that is resolved by
// DNS and has no endpoint would lead to its own host.
func (m *mesh) inline(entry *networking.ServiceEntry, namespace string, selector map[string]string) {
	entry.WorkloadSelector = nil
	if entry.GetResolution() == networking.ServiceEntry_NONE {
		return
	}
	entry.Endpoints = append(entry.GetEndpoints(), m.workloads.endpoints(namespace, selector)...)
	if len(entry.GetEndpoints()) == 0 {
		entry.Resolution = networking.ServiceEntry_STATIC
	}
}
