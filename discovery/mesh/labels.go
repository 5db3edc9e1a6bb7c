package mesh

import (
	"maps"
	"slices"
	"strings"
)

// labelKeys is a set of label names.
type labelKeys map[string]bool

func (k labelKeys) add(labels map[string]string) {
	for name := range labels {
		k[name] = true
	}
}

// addPreferred adds the label names of a failoverPriority. A name may be followed by the value to
// prefer instead of the client's.
func (k labelKeys) addPreferred(list []string) {
	for _, label := range list {
		if name, _, valued := strings.Cut(label, "="); !valued {
			k[name] = true
		}
	}
}

// labelCounts has how many rules choose by each label. It never changes.
type labelCounts map[string]int

// changed returns the counts with some names one lower, and some one higher.
func (c labelCounts) changed(gone, come []string) labelCounts {
	if len(gone) == 0 && len(come) == 0 {
		return c
	}
	out := maps.Clone(c)
	if out == nil {
		out = labelCounts{}
	}
	for _, name := range come {
		out[name]++
	}
	for _, name := range gone {
		if out[name]--; out[name] == 0 {
			delete(out, name)
		}
	}
	return out
}

// labelNames are the names of the labels by which proxies are told apart, sorted.
type labelNames []string

// namesIn returns the names in several sets and counts.
func namesIn(sets []labelKeys, counts ...labelCounts) labelNames {
	all := labelKeys{}
	for _, set := range sets {
		maps.Copy(all, set)
	}
	for _, count := range counts {
		for name := range count {
			all[name] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// encode writes the labels with these names in a canonical form.
func (n labelNames) encode(labels map[string]string) string {
	var b strings.Builder
	for _, name := range n {
		if v, ok := labels[name]; ok {
			b.WriteString(name + "=" + v + ",")
		}
	}
	return b.String()
}
