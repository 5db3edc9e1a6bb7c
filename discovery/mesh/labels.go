package mesh

import (
	"maps"
	"slices"
	"strings"
)

// LabelsWithin reports whether every label that selector asks for is in labels. An empty selector asks for nothing.
func LabelsWithin(selector, labels map[string]string) bool {
	for k, v := range selector {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// labelKeys is a set of label names.
type labelKeys map[string]bool

func (k labelKeys) add(labels map[string]string) {
	for name := range labels {
		k[name] = true
	}
}

// addPreferred adds the names in a failoverPriority, where one may be followed by the value to prefer in place of the client's.
func (k labelKeys) addPreferred(list []string) {
	for _, label := range list {
		if name, _, valued := strings.Cut(label, "="); !valued {
			k[name] = true
		}
	}
}

func (k labelKeys) union(other labelKeys) labelKeys {
	out := maps.Clone(k)
	if out == nil {
		out = labelKeys{}
	}
	maps.Copy(out, other)
	return out
}

// encode writes the labels with these names in a canonical form.
func (k labelKeys) encode(labels map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(k)) {
		if v, ok := labels[name]; ok {
			b.WriteString(name + "=" + v + ",")
		}
	}
	return b.String()
}
