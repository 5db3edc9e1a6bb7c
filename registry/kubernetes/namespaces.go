package kubernetes

import (
	"context"
	"maps"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/pgmesh/pgmesh/kinds"
)

// Gateways choose namespaces by their labels: those whose routes, or listeners, they take. The mesh
// has no namespaces as resources, so each route and each ListenerSet has the labels of its own, in an
// annotation.

// attaches reports whether resources of a kind are chosen by the labels of their namespace.
func attaches(k *kinds.Kind) bool {
	return k.Group == "gateway.networking.k8s.io" && (strings.HasSuffix(k.Name, "Route") || k.Name == "ListenerSet")
}

// namespaceObject is a Namespace.
type namespaceObject struct {
	Metadata struct {
		bare

		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
}

// Version implements follow.Object.
func (o namespaceObject) Version() string { return o.Metadata.ResourceVersion }

func (o namespaceObject) key() key { return o.Metadata.bare.key() }

// leanNamespace keeps the labels of a namespace, as an annotation has them, without its name.
func leanNamespace(o *namespaceObject) *string {
	labels := maps.Clone(o.Metadata.Labels)
	delete(labels, kinds.NamespaceLabel)
	text := kinds.WrittenLabels(labels)
	return &text
}

// followNamespaces has the labels of namespaces followed, until the context ends.
func (m *mesh) followNamespaces(ctx context.Context, g *errgroup.Group) {
	const name = "namespaces"
	followList(ctx, g, "/api/v1/namespaces", keeping(m, m.newGroup(name), name, "", m.namespaces, m.setNamespace, leanNamespace))
}

// setNamespace takes the labels of a namespace; nil if it is gone. What is chosen by them has to be
// told again.
func (m *mesh) setNamespace(k key, now *string) {
	before := m.namespaces[k]
	if m.namespaces[k] = now; now == nil {
		delete(m.namespaces, k)
	}
	if before != nil && now != nil && *before == *now {
		return
	}
	for kind, of := range m.config {
		if !attaches(kind) {
			continue
		}
		for name, r := range of {
			if name.Namespace != k.name {
				continue
			}
			if is := m.within(r); is != r {
				of[name], m.altered[name] = is, true
				m.statuses.renew(name, is)
			}
		}
	}
}

// within is a resource with the labels of its namespace. An annotation of the cluster does not count,
// for whoever may write a route may not choose the labels of its namespace.
func (m *mesh) within(r *kinds.Resource) *kinds.Resource {
	labels := m.namespaces[key{name: r.Namespace}]
	if said := r.Annotations[kinds.OriginNamespaceAnnotation]; labels == nil && said == "" || labels != nil && said == *labels {
		return r
	}
	out := *r
	out.Annotations = maps.Clone(r.Annotations)
	delete(out.Annotations, kinds.OriginNamespaceAnnotation)
	if labels != nil && *labels != "" {
		out.Annotations[kinds.OriginNamespaceAnnotation] = *labels
	}
	return &out
}
