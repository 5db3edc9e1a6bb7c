package mesh

import (
	"cmp"
	"maps"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/kinds"
)

// workloadIndex finds WorkloadEntries by namespace, in the order of their names.
type workloadIndex map[string][]*workload

func buildWorkloads(snapshot *configstore.Snapshot) workloadIndex {
	index := workloadIndex{}
	for r := range snapshot.Of(kindWorkloadEntry) {
		index[r.Namespace] = append(index[r.Namespace], convertWorkload(r))
	}
	for _, list := range index {
		slices.SortFunc(list, func(a, b *workload) int { return cmp.Compare(a.name, b.name) })
	}
	return index
}

// convertWorkload reads a WorkloadEntry. A selector sees the labels of its metadata too; those of the spec come first
// in being overridden, as in Istio.
func convertWorkload(r *kinds.Resource) *workload {
	spec := r.Spec.(*networking.WorkloadEntry)
	labels := spec.Labels
	if len(r.Labels) > 0 {
		labels = maps.Clone(spec.Labels)
		if labels == nil {
			labels = map[string]string{}
		}
		maps.Copy(labels, r.Labels)
	}
	return &workload{name: r.Name, namespace: r.Namespace, spec: spec, labels: labels}
}

// selected lists the workloads of a namespace with these labels.
func (x workloadIndex) selected(namespace string, labels map[string]string) []*workload {
	var out []*workload
	for _, w := range x[namespace] {
		if LabelsWithin(labels, w.labels) {
			out = append(out, w)
		}
	}
	return out
}
