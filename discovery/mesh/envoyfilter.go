package mesh

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/kinds/envoy"
)

// EnvoyFilter is an EnvoyFilter with its patches read.
type EnvoyFilter struct {
	Resource *kinds.Resource
	Spec     *networking.EnvoyFilter
	// Problems were found as the patches were read.
	Problems []envoy.Problem

	patches []Patch
}

// Patch is one change to Envoy's messages, and the EnvoyFilter that it is from.
type Patch struct {
	*envoy.Patch

	From *kinds.Resource
}

// Path is the field in which the patch is written.
func (p Patch) Path() string { return fmt.Sprintf("spec.configPatches[%d]", p.Index) }

// envoyFilterIndex holds the EnvoyFilters by the namespace they are in.
type envoyFilterIndex struct {
	all  map[*kinds.Resource]*EnvoyFilter
	root string
	in   map[string][]*EnvoyFilter
}

// buildEnvoyFilters indexes the EnvoyFilters that a step leads to. It reads only those that
// changed.
func buildEnvoyFilters(now configstore.Step, prev *Mesh, root string) envoyFilterIndex {
	if root == prev.filters.root && prev.unchanged(now, kindEnvoyFilter) {
		return prev.filters
	}
	index := envoyFilterIndex{root: root, all: map[*kinds.Resource]*EnvoyFilter{}, in: map[string][]*EnvoyFilter{}}
	for r := range now.Of(kindEnvoyFilter) {
		f, known := prev.filters.all[r]
		if !known {
			f = readEnvoyFilter(r)
		}
		index.all[r] = f
		index.in[r.Namespace] = append(index.in[r.Namespace], f)
	}
	return index
}

func readEnvoyFilter(r *kinds.Resource) *EnvoyFilter {
	f := &EnvoyFilter{Resource: r, Spec: specOf[*networking.EnvoyFilter](r)}
	patches, problems := envoy.Read(f.Spec)
	f.Problems = problems
	for _, p := range patches {
		f.patches = append(f.patches, Patch{Patch: p, From: r})
	}
	return f
}

// EnvoyFilters lists all of them, by namespace and name.
func (m *Mesh) EnvoyFilters() []*EnvoyFilter {
	out := make([]*EnvoyFilter, 0, len(m.filters.all))
	for _, f := range m.filters.all {
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b *EnvoyFilter) int {
		return cmp.Or(strings.Compare(a.Resource.Namespace, b.Resource.Namespace), strings.Compare(a.Resource.Name, b.Resource.Name))
	})
	return out
}

// Patches lists the patches for a proxy, in the order in which they are applied: by priority, then
// those of the root namespace before those of the proxy's own, then the oldest first.
func (m *Mesh) Patches(p *Proxy) []Patch {
	if len(m.filters.all) == 0 {
		return nil
	}
	p = m.Known(p)
	var filters []*EnvoyFilter
	for _, namespace := range slices.Compact([]string{m.filters.root, p.Namespace}) {
		for _, f := range m.filters.in[namespace] {
			if kinds.LabelsWithin(f.Spec.GetWorkloadSelector().GetLabels(), p.Labels) {
				filters = append(filters, f)
			}
		}
	}
	slices.SortFunc(filters, m.filters.compare)
	var out []Patch
	for _, f := range filters {
		for _, patch := range f.patches {
			if patch.For(p.Version, p.Texts) {
				out = append(out, patch)
			}
		}
	}
	return out
}

func (x *envoyFilterIndex) compare(a, b *EnvoyFilter) int {
	foreign := func(f *EnvoyFilter) int {
		if f.Resource.Namespace == x.root {
			return 0
		}
		return 1
	}
	return cmp.Or(
		cmp.Compare(a.Spec.GetPriority(), b.Spec.GetPriority()), cmp.Compare(foreign(a), foreign(b)),
		a.Resource.CreateTime.Compare(b.Resource.CreateTime), strings.Compare(a.Resource.Name, b.Resource.Name),
	)
}

// encodePatches names the patches for a proxy.
func encodePatches(patches []Patch) string {
	var b strings.Builder
	for _, p := range patches {
		fmt.Fprintf(&b, ",%s/%s#%d", p.From.Namespace, p.From.Name, p.Index)
	}
	return b.String()
}

// PatchedBy reports whether an EnvoyFilter patches what proxies of the class are sent.
func (c *Class) PatchedBy(namespace, name string) bool {
	return strings.Contains(c.Patches, ","+namespace+"/"+name+"#")
}
