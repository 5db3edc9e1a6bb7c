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
type workloadIndex struct {
	byNamespace map[string][]*workload
	converted   map[*kinds.Resource]*workload
}

// buildWorkloads takes over from prev what did not change.
func buildWorkloads(snapshot *configstore.Snapshot, prev workloadIndex) workloadIndex {
	index := workloadIndex{byNamespace: map[string][]*workload{}, converted: map[*kinds.Resource]*workload{}}
	for r := range snapshot.Of(kindWorkloadEntry) {
		w, known := prev.converted[r]
		if !known {
			w = convertWorkload(r)
		}
		index.converted[r] = w
		index.byNamespace[r.Namespace] = append(index.byNamespace[r.Namespace], w)
	}
	for _, list := range index.byNamespace {
		slices.SortFunc(list, func(a, b *workload) int { return cmp.Compare(a.name, b.name) })
	}
	return index
}

// convertWorkload reads a WorkloadEntry. A selector sees the labels of its metadata too; those of the spec come first
// in being overridden, as in Istio.
func convertWorkload(r *kinds.Resource) *workload {
	spec := specOf[*networking.WorkloadEntry](r)
	labels := spec.GetLabels()
	if len(r.Labels) > 0 {
		labels = maps.Clone(spec.GetLabels())
		if labels == nil {
			labels = map[string]string{}
		}
		maps.Copy(labels, r.Labels)
	}
	w := &workload{name: r.Name, namespace: r.Namespace, spec: spec, labels: labels}
	return w.placed()
}

// selectedBy lists the workloads that a ServiceEntry selects in its namespace.
func (x workloadIndex) selectedBy(r *kinds.Resource) []*workload {
	selector := specOf[*networking.ServiceEntry](r).GetWorkloadSelector()
	if selector == nil {
		return nil
	}
	var out []*workload
	for _, w := range x.byNamespace[r.Namespace] {
		if LabelsWithin(selector.GetLabels(), w.labels) {
			out = append(out, w)
		}
	}
	return out
}
