package kubernetes

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/pgmesh/pgmesh/registry/kubernetes/follow"
)

// followList has a list followed until the context ends.
func followList[T follow.Object](ctx context.Context, g *errgroup.Group, path string, l *list[T]) {
	f := &follow.List[T]{Client: l.client, Path: path}
	g.Go(func() error {
		_ = f.Run(ctx, l) // it ends with the context, which may be that of this list alone
		return nil
	})
}

// scopes are the namespaces to read, as parts of paths, by their names; "" is all of them.
func (s *settings) scopes() map[string]string {
	if len(s.namespaces) == 0 {
		return map[string]string{"": ""}
	}
	out := make(map[string]string, len(s.namespaces))
	for _, name := range s.namespaces {
		out[name] = "namespaces/" + name + "/"
	}
	return out
}

// followServices has the lists followed that services are made of.
func (m *mesh) followServices(ctx context.Context, g *errgroup.Group) {
	m.own = m.newGroup(servicesEntry)
	c := m.content
	for scope, part := range m.scopes() {
		followList(ctx, g, "/api/v1/"+part+"services", keeping(m, m.own, "services", scope, c.services, c.setService, leanService))
		followList(ctx, g, "/apis/discovery.k8s.io/v1/"+part+"endpointslices", keeping(m, m.own, "endpointslices.discovery.k8s.io", scope, c.slices, c.setSlice, leanSlice))
		if m.pods {
			followList(ctx, g, "/api/v1/"+part+"pods", keeping(m, m.own, "pods", scope, c.pods, c.setPod, leanPod))
		}
	}
	if m.nodes {
		followList(ctx, g, "/api/v1/nodes", keeping(m, m.own, "nodes", "", c.nodes, c.setNode, leanNode))
	}
}

// keyed is an object of a list that services are made of.
type keyed interface {
	follow.Object
	key() key
}

// keeping keeps what is wanted of each object of a namespace, by its key. The list is one of a group.
func keeping[T keyed, V any](m *mesh, g *group, name, namespace string, there map[key]*V, set func(key, *V), lean func(*T) *V) *list[T] {
	set = bounded(m, name, there, set)
	return &list[T]{
		mesh: m, part: g.add(name),
		all: func(all []T) {
			found := make(map[key]bool, len(all))
			for i := range all {
				found[all[i].key()] = true
				set(all[i].key(), lean(&all[i]))
			}
			for k := range there {
				if !found[k] && (namespace == "" || k.namespace == namespace) {
					set(k, nil)
				}
			}
		},
		changed: func(o T) { set(o.key(), lean(&o)) },
		gone:    func(o T) { set(o.key(), nil) },
	}
}

// bounded leaves out what is too much to keep, and says so.
func bounded[V any](m *mesh, name string, there map[key]*V, set func(key, *V)) func(key, *V) {
	return func(k key, v *V) {
		if there[k] == nil && v != nil && len(there) >= follow.MostObjects {
			m.blame("the list of "+name, fmt.Errorf("it has more than %d objects, of which some are left out", follow.MostObjects))
			return
		}
		set(k, v)
	}
}
