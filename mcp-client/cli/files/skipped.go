package files

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Skipped counts documents that do not belong to a mesh, by apiVersion and kind.
type Skipped map[foreignKind]int

// foreignKind is a kind that has nothing to do with a mesh.
type foreignKind struct{ apiVersion, kind string }

func (s Skipped) add(apiVersion, kind string) { s[foreignKind{apiVersion, kind}]++ }

// SkippedKind is the printed form of how many documents of a kind were skipped.
type SkippedKind struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Count      int    `json:"count"`
}

// List lists what was skipped, the most frequent first.
func (s Skipped) List() []SkippedKind {
	var all []SkippedKind
	for _, k := range s.sorted() {
		all = append(all, SkippedKind{k.apiVersion, k.kind, s[k]})
	}
	return all
}

func (s Skipped) sorted() []foreignKind {
	return slices.SortedFunc(maps.Keys(s), func(a, b foreignKind) int {
		if s[a] != s[b] {
			return s[b] - s[a]
		}
		return strings.Compare(a.kind+a.apiVersion, b.kind+b.apiVersion)
	})
}

// InWords says what was skipped, and what to do about it if necessary.
func (s Skipped) InWords() string {
	if len(s) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprint(&b, "; left out, as it has nothing to do with a mesh:")
	for i, k := range s.sorted() {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, " %d %s (%s)", s[k], k.kind, k.apiVersion)
	}
	if s[foreignKind{"v1", "Service"}] > 0 {
		b.WriteString(". To have the Services of Kubernetes in the mesh, say --from kubernetes to import, or let mcp-server follow the cluster: --registry kubernetes:///KUBECONFIG")
	}
	return b.String()
}

// Tell is for commands that only check files. It says what was skipped, and which commands refuse it.
func (s Skipped) Tell(out io.Writer) {
	if text := s.InWords(); text != "" {
		fmt.Fprintln(out, strings.TrimPrefix(text, "; ")+". apply leaves it out of folders too, and refuses it in files that are named; import leaves it out everywhere")
	}
}
