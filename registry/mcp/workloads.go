package mcp

import (
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/kinds"
)

// workloads are the WorkloadEntries of the server, and the ServiceEntries that select some, by labels.
type workloads struct {
	entries   places // a workload is at each of its labels
	selectors places // a selector is at one of its labels, at which all that it selects are
	selected  map[kinds.Key]*workload
	selecting map[kinds.Key]map[string]string
}

// workload is a WorkloadEntry as an endpoint, with its labels.
type workload struct {
	name     string
	endpoint *networking.WorkloadEntry
	labels   map[string]string // of its spec, and before them of its metadata
}

// labelAt is a label with its value in a namespace; without a name it is everywhere there.
type labelAt struct{ namespace, name, value string }

type places map[labelAt]map[kinds.Key]bool

func (p places) add(at labelAt, k kinds.Key) {
	if p[at] == nil {
		p[at] = map[kinds.Key]bool{}
	}
	p[at][k] = true
}

func (p places) remove(at labelAt, k kinds.Key) {
	if delete(p[at], k); len(p[at]) == 0 {
		delete(p, at)
	}
}

func newWorkloads() *workloads {
	return &workloads{entries: places{}, selectors: places{}, selected: map[kinds.Key]*workload{}, selecting: map[kinds.Key]map[string]string{}}
}

func (w *workloads) add(r *kinds.Resource) {
	one := workloadOf(r)
	w.selected[r.Key()] = one
	for _, at := range placesOf(r.Namespace, one.labels) {
		w.entries.add(at, r.Key())
	}
}

func (w *workloads) remove(r *kinds.Resource) {
	one := w.selected[r.Key()]
	if one == nil {
		return
	}
	delete(w.selected, r.Key())
	for _, at := range placesOf(r.Namespace, one.labels) {
		w.entries.remove(at, r.Key())
	}
}

func (w *workloads) addSelector(r *kinds.Resource) {
	if selector, selects := selectorOf(r); selects {
		w.selecting[r.Key()] = selector
		w.selectors.add(placeOf(r.Namespace, selector), r.Key())
	}
}

func (w *workloads) removeSelector(r *kinds.Resource) {
	if selector, selects := w.selecting[r.Key()]; selects {
		delete(w.selecting, r.Key())
		w.selectors.remove(placeOf(r.Namespace, selector), r.Key())
	}
}

// eachSelecting calls for each ServiceEntry that selects a workload.
func (w *workloads) eachSelecting(r *kinds.Resource, do func(kinds.Key)) {
	labels := workloadOf(r).labels
	for _, at := range placesOf(r.Namespace, labels) {
		for k := range w.selectors[at] {
			if kinds.LabelsWithin(w.selecting[k], labels) {
				do(k)
			}
		}
	}
}

// endpoints are the workloads of a namespace with these labels, in the order of their names.
func (w *workloads) endpoints(namespace string, selector map[string]string) []*networking.WorkloadEntry {
	fewest := w.entries[labelAt{namespace: namespace}]
	for name, value := range selector {
		if at := w.entries[labelAt{namespace, name, value}]; len(at) < len(fewest) {
			fewest = at
		}
	}
	var found []*workload
	for k := range fewest {
		if one := w.selected[k]; kinds.LabelsWithin(selector, one.labels) {
			found = append(found, one)
		}
	}
	slices.SortFunc(found, func(a, b *workload) int { return strings.Compare(a.name, b.name) })
	out := make([]*networking.WorkloadEntry, len(found))
	for i, one := range found {
		out[i] = one.endpoint
	}
	return out
}

// workloadOf reads a WorkloadEntry. Labels of its metadata count before those of its spec, as in Istio.
func workloadOf(r *kinds.Resource) *workload {
	spec, is := r.Spec.Message().(*networking.WorkloadEntry)
	if !is {
		spec = &networking.WorkloadEntry{}
	}
	labels := map[string]string{}
	maps.Copy(labels, spec.GetLabels())
	maps.Copy(labels, r.Labels)
	endpoint := proto.CloneOf(spec)
	endpoint.Labels = maps.Clone(labels)
	if health := r.Health(); kinds.KeepsAway(health) {
		endpoint.Labels[kinds.HealthLabel] = health
	}
	return &workload{r.Name, endpoint, labels}
}

// selectorOf are the labels by which a ServiceEntry selects workloads, if it does.
func selectorOf(r *kinds.Resource) (labels map[string]string, selects bool) {
	if spec, is := r.Spec.Message().(*networking.ServiceEntry); is && spec.GetWorkloadSelector() != nil {
		return spec.GetWorkloadSelector().GetLabels(), true
	}
	labels = kinds.AnnotatedSelector(r.Annotations)
	return labels, labels != nil
}

func placesOf(namespace string, labels map[string]string) []labelAt {
	out := make([]labelAt, 0, len(labels)+1)
	out = append(out, labelAt{namespace: namespace})
	for name, value := range labels {
		out = append(out, labelAt{namespace, name, value})
	}
	return out
}

func placeOf(namespace string, selector map[string]string) labelAt {
	if len(selector) == 0 {
		return labelAt{namespace: namespace}
	}
	name := slices.Min(slices.Collect(maps.Keys(selector)))
	return labelAt{namespace, name, selector[name]}
}
