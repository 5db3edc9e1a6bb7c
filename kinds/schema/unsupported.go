package schema

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/pgmesh/pgmesh/kinds/schema/predicate"
)

// Unsupported is a field, or a whole resource, of some kinds that discovery does not act on.
type Unsupported struct {
	Group  string   `yaml:"group"`
	Kinds  []string `yaml:"kinds"`
	Path   string   `yaml:"path"` // from the spec on, "" for the whole spec
	When   string   `yaml:"when"`
	Reason string   `yaml:"reason"`
	Hint   string   `yaml:"hint"`

	when *predicate.Predicate
}

// AllUnsupported lists all of them.
var AllUnsupported = sync.OnceValue(func() []*Unsupported {
	var all []*Unsupported
	if err := yaml.Unmarshal([]byte(files()[unsupportedFile]), &all); err != nil {
		panic("kinds/schema/unsupported.yaml: " + err.Error()) // a test reads it
	}
	for _, u := range all {
		if u.When == "" {
			continue
		}
		var err error
		if u.when, err = predicate.Parse(u.When); err != nil {
			panic(fmt.Sprintf("kinds/schema/unsupported.yaml: %s: when: %v", u.Path, err))
		}
	}
	return all
})

// Steps are the fields on the path to the unsupported one.
func (u *Unsupported) Steps() []string {
	if u.Path == "" {
		return []string{}
	}
	return strings.Split(u.Path, ".")
}

// notActedOn begins each reason. It names discovery because other readers, such as an istiod, may
// act on the field. The database uses the same words.
const notActedOn = "pgmesh's discovery does not act on it: "

// FindUnsupported returns what a spec, as a JSON tree in its normal form, has that discovery does
// not act on.
func FindUnsupported(group, kind string, spec any) []Problem {
	var out []Problem
	for _, u := range AllUnsupported() {
		if u.Group != group || !slices.Contains(u.Kinds, kind) {
			continue
		}
		follow("spec", spec, u.Steps(), func(at string, value any) {
			if u.when == nil || u.when.Holds(value) {
				if u.Path == "" {
					at = "" // the resource as a whole
				}
				out = append(out, Problem{Path: at, Reason: notActedOn + u.Reason, Hint: u.Hint})
			}
		})
	}
	return out
}

// follow calls visit for each value that the steps lead to.
func follow(at string, value any, steps []string, visit func(at string, value any)) {
	if len(steps) == 0 {
		visit(at, value)
		return
	}
	switch value := value.(type) {
	case []any:
		for i, item := range value {
			follow(Item(at, i), item, steps, visit)
		}
	case map[string]any:
		if steps[0] == "*" {
			for _, key := range slices.Sorted(maps.Keys(value)) {
				follow(Member(at, key), value[key], steps[1:], visit)
			}
		} else if member, there := value[steps[0]]; there {
			follow(Member(at, steps[0]), member, steps[1:], visit)
		}
	}
}
