package arguments

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/kinds"
)

// Namespace is the namespace that a command applies to.
type Namespace struct {
	Name   string
	All    bool
	Chosen bool // set by a flag or the environment
}

func (n Namespace) String() string {
	if n.All {
		return "any namespace"
	}
	return "namespace " + n.Name
}

// Find picks the wanted resources, and returns an error for each that does not exist.
func (n Namespace) Find(query []Wanted, all []*kinds.Resource) (found []*kinds.Resource, missing []error) {
	taken := map[kinds.Key]bool{}
	for _, w := range query {
		before := len(taken)
		for _, r := range all {
			if n.Holds(w, r.Key()) && !taken[r.Key()] {
				taken[r.Key()] = true
				found = append(found, r)
			}
		}
		if w.Name != "" && len(taken) == before && !slices.ContainsFunc(found, func(r *kinds.Resource) bool { return n.Holds(w, r.Key()) }) {
			missing = append(missing, n.notFound(w, all))
		}
	}
	return found, missing
}

// Holds reports whether a resource matches a wanted one in this namespace.
func (n Namespace) Holds(w Wanted, k kinds.Key) bool {
	if w.Kind != k.Kind || w.Name != "" && w.Name != k.Name {
		return false
	}
	if w.Namespace != "" {
		return w.Namespace == k.Namespace
	}
	return n.All || !k.Kind.Namespaced || k.Namespace == n.Name
}

// notFound says that a resource does not exist, and suggests similar ones.
func (n Namespace) notFound(w Wanted, all []*kinds.Resource) error {
	key := w.In(n)
	if n.All && w.Namespace == "" {
		key.Namespace = ""
	}
	var near, elsewhere []string
	for _, r := range all {
		switch {
		case n.Holds(Wanted{Kind: w.Kind, Namespace: w.Namespace}, r.Key()):
			near = append(near, r.Name)
		case r.Kind == w.Kind && r.Name == w.Name:
			elsewhere = append(elsewhere, r.Namespace)
		}
	}
	switch name := Nearest(w.Name, near); {
	case len(elsewhere) > 0:
		return fmt.Errorf("%s: not found (there is one in the namespace %s)", key, elsewhere[0])
	case name != "":
		return fmt.Errorf("%s: not found (did you mean %q?)", key, name)
	}
	return fmt.Errorf("%s: not found%s", key, HintOfNamesake(w.Kind))
}

// HintOfNamesake tells of the other kind with the name of this one; "" if there is none. Whoever names a
// Gateway may mean that.
func HintOfNamesake(k *kinds.Kind) string {
	other := k.Namesake()
	if other == nil {
		return ""
	}
	return fmt.Sprintf(" (the %s of %s is another kind: %s)", other.Name, other.Group, slices.Concat(other.ShortNames, []string{strings.ToLower(other.Name)})[0])
}

// Requested returns the namespaces for a call of the admin API, none for all.
func (n Namespace) Requested() []string {
	if n.Chosen && !n.All {
		return []string{n.Name}
	}
	return nil
}
