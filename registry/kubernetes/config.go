package kubernetes

import (
	"context"
	"fmt"
	"maps"

	"golang.org/x/sync/errgroup"

	"github.com/pgmesh/pgmesh/internal/kit/panics"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/registry"
	"github.com/pgmesh/pgmesh/registry/kubernetes/follow"
)

// kindName is how kubectl names a kind in full.
func kindName(k *kinds.Kind) string { return k.Plural + "." + k.Group }

// lastApplied is an annotation that has the whole object a second time.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// configEntry is how people find a resource in the cluster.
func configEntry(k kinds.Key) string { return kindName(k.Kind) + "/" + k.FullName() }

// resource makes a resource of an object. It keeps its namespace and its name, because others refer to
// it by them: a VirtualService names Gateways, and a route its parents.
func (o *configObject) resource(kind *kinds.Kind) (*kinds.Resource, error) {
	k := o.keyOf(kind)
	if len(o.Spec) == 0 {
		o.Spec = []byte("{}")
	}
	spec, err := kind.Decode(o.Spec)
	if err != nil {
		return nil, err
	}
	annotations := maps.Clone(o.Metadata.Annotations)
	delete(annotations, lastApplied)
	delete(annotations, kinds.OriginEndpointsAnnotation) // one of the cluster does not count: it would be Pods that nobody has seen
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[kinds.OriginEntryAnnotation] = configEntry(k)
	if health := o.health(); health != "" && kind.Name == workloadEntry {
		annotations[kinds.HealthAnnotation] = health
	}
	return &kinds.Resource{
		Kind: kind, Namespace: k.Namespace, Name: k.Name, Labels: o.Metadata.Labels, Annotations: annotations,
		CreateTime: o.Metadata.CreationTimestamp, Spec: kinds.SpecOf(spec),
	}, nil
}

func (o *configObject) keyOf(kind *kinds.Kind) kinds.Key {
	return kinds.Key{Kind: kind, Namespace: o.Metadata.Namespace, Name: o.Metadata.Name}
}

// followKind has the resources of a kind followed, in the version that the cluster has, until the
// context ends.
func (m *mesh) followKind(ctx context.Context, g *errgroup.Group, kind *kinds.Kind, version string, grp *group) {
	scopes := m.scopes()
	if !kind.Namespaced {
		scopes = map[string]string{"": ""}
	}
	for scope, part := range scopes {
		path := fmt.Sprintf("/apis/%s/%s/%s%s", kind.Group, version, part, kind.Plural)
		followList(ctx, g, path, m.configuring(kind, scope, grp))
	}
}

// configuring keeps the resources of a kind in a namespace.
func (m *mesh) configuring(kind *kinds.Kind, namespace string, g *group) *list[configObject] {
	return &list[configObject]{
		mesh: m, part: g.add(kindName(kind)), missing: m.lookAgain,
		all: func(all []configObject) {
			found := make(map[kinds.Key]bool, len(all))
			for i := range all {
				found[all[i].keyOf(kind)] = true
				m.take(kind, &all[i])
			}
			for k := range m.config[kind] {
				if !found[k] && (namespace == "" || k.Namespace == namespace) {
					m.drop(k)
				}
			}
		},
		changed: func(o configObject) { m.take(kind, &o) },
		gone:    func(o configObject) { m.drop(o.keyOf(kind)) },
	}
}

// take takes a resource. One that cannot be read stays as it was.
func (m *mesh) take(kind *kinds.Kind, o *configObject) {
	k := o.keyOf(kind)
	r, err := panics.Receive(func() (*kinds.Resource, error) { return o.resource(kind) })
	if err == nil && m.config[kind][k] == nil && len(m.config[kind]) >= follow.MostObjects {
		err = fmt.Errorf("there are more than %d of its kind, and this one is left out", follow.MostObjects)
	}
	if m.blame(configEntry(k), err); err != nil {
		m.statuses.saw(k, o, nil, err)
		return
	}
	if attaches(kind) {
		r = m.within(r)
	}
	if carries(kind) {
		m.noteNamed(k, m.named(r))
		r = m.carrying(r)
	}
	if before := m.config[kind][k]; before != nil && registry.Same(before, r) {
		m.statuses.saw(k, o, m.configured(k), nil)
		return
	}
	m.config[kind][k], m.altered[k] = r, true
	m.choosing.set(r)
	m.statuses.saw(k, o, r, nil)
}

func (m *mesh) drop(k kinds.Key) {
	m.blame(configEntry(k), nil)
	m.statuses.forget(k)
	if carries(k.Kind) {
		m.noteNamed(k, nil)
	}
	if m.config[k.Kind][k] != nil {
		delete(m.config[k.Kind], k)
		m.choosing.remove(k)
		m.altered[k] = true
	}
}

// reconfigure are the changes of configuration since it was told.
func (m *mesh) reconfigure() []kinds.Change {
	changes := make([]kinds.Change, 0, len(m.altered))
	for k := range m.altered {
		m.choose(k)
		changes = append(changes, kinds.Change{Key: k, Resource: m.configured(k)})
	}
	clear(m.altered)
	return changes
}
