package kinds

import (
	"maps"
	"slices"
	"strings"
)

// SelectorAnnotation has a ServiceEntry that lists endpoints select WorkloadEntries of its namespace
// beside them, by labels: "app=web,tier=front". A workloadSelector cannot stand beside endpoints.
const SelectorAnnotation = "mesh.pgmesh.io/workload-selector"

// AnnotatedSelector reads the labels of a SelectorAnnotation. What cannot be read selects nothing,
// and so does the empty selector. The database reads it in mesh_internal.annotated_selector.
func AnnotatedSelector(annotations map[string]string) map[string]string {
	return readLabels(annotations[SelectorAnnotation])
}

// readLabels reads labels that are written as an annotation has them; nil if it cannot.
func readLabels(text string) map[string]string {
	if text == "" {
		return nil
	}
	labels := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		name, value, found := strings.Cut(pair, "=")
		if !found || name == "" {
			return nil
		}
		labels[name] = value
	}
	return labels
}

// WrittenLabels are labels as an annotation has them, sorted: "app=web,tier=front".
func WrittenLabels(labels map[string]string) string {
	pairs := make([]string, 0, len(labels))
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		pairs = append(pairs, name+"="+labels[name])
	}
	return strings.Join(pairs, ",")
}
