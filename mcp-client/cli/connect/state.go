package connect

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/snapshot"
)

// State is the content of a server at one moment, or of a file.
type State struct {
	Revision  int64             // 0 without revisions
	Resources []*kinds.Resource // sorted in print order
	Versions  map[kinds.Key]string
}

// Sort puts the resources into print order.
func (s *State) Sort() {
	slices.SortFunc(s.Resources, func(a, b *kinds.Resource) int { return CompareKeys(a.Key(), b.Key()) })
}

// CompareKeys orders by kind, as in the registry, then by namespace and name.
func CompareKeys(a, b kinds.Key) int {
	return cmp.Or(
		cmp.Compare(rank[a.Kind], rank[b.Kind]),
		strings.Compare(a.Namespace, b.Namespace),
		strings.Compare(a.Name, b.Name),
	)
}

var rank = func() map[*kinds.Kind]int {
	ranks := map[*kinds.Kind]int{}
	for i, k := range kinds.All() {
		ranks[k] = i
	}
	return ranks
}()

// ByKey finds the resources by their keys.
func (s *State) ByKey() map[kinds.Key]*kinds.Resource {
	byKey := make(map[kinds.Key]*kinds.Resource, len(s.Resources))
	for _, r := range s.Resources {
		byKey[r.Key()] = r
	}
	return byKey
}

// Namespaces returns the namespaces that have resources, in the order of their names.
func (s *State) Namespaces() []string {
	has := map[string]bool{}
	for _, r := range s.Resources {
		if r.Namespace != "" {
			has[r.Namespace] = true
		}
	}
	return slices.Sorted(maps.Keys(has))
}

// Narrow removes what is of other kinds or, if any is named, of other namespaces.
func (s *State) Narrow(ks []*kinds.Kind, namespaces []string) {
	s.Resources = slices.DeleteFunc(s.Resources, func(r *kinds.Resource) bool {
		return !slices.Contains(ks, r.Kind) || len(namespaces) > 0 && !slices.Contains(namespaces, r.Namespace)
	})
}

// FromSnapshot returns the state that a snapshot has.
func FromSnapshot(h snapshot.Header, entries []snapshot.Entry) *State {
	s := &State{Revision: h.Revision, Versions: map[kinds.Key]string{}}
	for _, e := range entries {
		s.Resources = append(s.Resources, e.Resource)
		s.Versions[e.Resource.Key()] = e.Version
	}
	s.Sort()
	return s
}

// KindCount is the printed form of how many resources of a kind there are.
type KindCount struct {
	Group string `json:"group"`
	Kind  string `json:"kind"`
	Count int    `json:"count"`
}

// CountKinds counts sorted resources by kind.
func CountKinds(resources []*kinds.Resource) []KindCount {
	counts := []KindCount{}
	for _, r := range resources {
		if last := len(counts) - 1; last >= 0 && counts[last].Group == r.Kind.Group && counts[last].Kind == r.Kind.Name {
			counts[last].Count++
			continue
		}
		counts = append(counts, KindCount{r.Kind.Group, r.Kind.Name, 1})
	}
	return counts
}
