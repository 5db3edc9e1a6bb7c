package mesh

import "slices"

const (
	exportPublic  = "*"
	exportPrivate = "."
	exportNone    = "~"
)

// visibility says to which namespaces a resource is exported: an exportTo list with "." resolved to
// the resource's own namespace.
type visibility []string

// exported resolves an exportTo list, or the default if it is empty.
func exported(exportTo, fallback []string, namespace string) visibility {
	if len(exportTo) == 0 {
		exportTo = fallback
	}
	out := make(visibility, len(exportTo))
	for i, to := range exportTo {
		if to == exportPrivate {
			to = namespace
		}
		out[i] = to
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// sameMembers compares two lists as sets.
func sameMembers(a, b []string) bool {
	within := func(list []string) func(string) bool { return func(s string) bool { return !slices.Contains(list, s) } }
	return !slices.ContainsFunc(a, within(b)) && !slices.ContainsFunc(b, within(a))
}

func (v visibility) public() bool { return slices.Contains(v, exportPublic) }

// includes reports whether a proxy in namespace may see the resource.
func (v visibility) includes(namespace string) bool {
	return v.public() || !slices.Contains(v, exportNone) && slices.Contains(v, namespace)
}
