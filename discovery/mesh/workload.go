package mesh

import (
	"cmp"
	"maps"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/kinds"
)

// workloadIndex finds WorkloadEntries by the labels of a selector, sorted by name. It never
// changes.
type workloadIndex struct {
	converted table[*kinds.Resource, *workload]
	byLabel   table[labelAt, []*workload]
}

// labelAt is a label with its value, in a namespace. Without a name it stands for every workload
// there.
type labelAt struct{ namespace, name, value string }

// workloadChange is a WorkloadEntry before and after; nil if there was, or is, none.
type workloadChange struct{ before, after *workload }

// following returns the index after edits of WorkloadEntries, and what changed.
func (x *workloadIndex) following(edits []configstore.Edit) (*workloadIndex, []workloadChange) {
	var changes []workloadChange
	var gone, come []*workload
	converted := x.converted.edit()
	for _, e := range edits {
		var c workloadChange
		if e.Before != nil {
			c.before = x.converted.get(e.Before)
			converted.remove(e.Before)
			gone = append(gone, c.before)
		}
		if e.After != nil {
			c.after = convertWorkload(e.After)
			converted.set(e.After, c.after)
			come = append(come, c.after)
		}
		changes = append(changes, c)
	}
	if len(changes) == 0 {
		return x, nil
	}
	return &workloadIndex{
		converted: converted.done(), byLabel: patchedLists(x.byLabel, gone, come, (*workload).places, compareWorkloads),
	}, changes
}

// convertWorkload reads a WorkloadEntry. A selector sees the labels of its metadata too; labels of
// its spec are overridden by them, as in Istio.
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
	w := &workload{name: r.Name, namespace: r.Namespace, spec: spec, labels: labels, health: r.Health(), standalone: true}
	return w.placed()
}

func compareWorkloads(a, b *workload) int {
	return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.namespace, b.namespace))
}

// places are the keys under which the index has the workload.
func (w *workload) places() []labelAt {
	out := []labelAt{{namespace: w.namespace}}
	for name, value := range w.labels {
		out = append(out, labelAt{w.namespace, name, value})
	}
	return out
}

// selectedBy lists the workloads that a ServiceEntry selects in its namespace; nil if it has no
// selector.
func (x *workloadIndex) selectedBy(r *kinds.Resource) []*workload {
	selector, selects := selectorOf(r)
	if !selects {
		return nil
	}
	fewest := x.byLabel.get(labelAt{namespace: r.Namespace})
	for name, value := range selector {
		if list := x.byLabel.get(labelAt{r.Namespace, name, value}); len(list) < len(fewest) {
			fewest = list
		}
	}
	var out []*workload
	for _, w := range fewest {
		if kinds.LabelsWithin(selector, w.labels) {
			out = append(out, w)
		}
	}
	return out
}

// selectedBy reports whether a ServiceEntry of the same namespace selects this workload.
func (w *workload) selectedBy(r *kinds.Resource) bool {
	selector, selects := selectorOf(r)
	return selects && kinds.LabelsWithin(selector, w.labels)
}

// selectorOf returns the labels by which a ServiceEntry selects workloads, if it does: in place of
// endpoints, or, by an annotation, beside them.
func selectorOf(r *kinds.Resource) (labels map[string]string, selects bool) {
	if selector := specOf[*networking.ServiceEntry](r).GetWorkloadSelector(); selector != nil {
		return selector.GetLabels(), true
	}
	labels = kinds.AnnotatedSelector(r.Annotations)
	return labels, labels != nil
}

func selectsWorkloads(r *kinds.Resource) bool {
	_, selects := selectorOf(r)
	return selects
}

// selectorPlace is one key under which every workload must be that a ServiceEntry selects: one of
// its labels.
func selectorPlace(r *kinds.Resource) labelAt {
	labels, _ := selectorOf(r)
	if len(labels) == 0 {
		return labelAt{namespace: r.Namespace}
	}
	name := slices.Min(slices.Collect(maps.Keys(labels)))
	return labelAt{r.Namespace, name, labels[name]}
}
