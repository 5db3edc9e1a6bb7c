package resources

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
)

// fieldSelector chooses resources by values of their fields.
type fieldSelector []fieldRequirement

type fieldRequirement struct {
	path  output.Path
	value string
	not   bool
}

// parseFields reads "metadata.name=reviews,spec.gateways!=mesh".
func parseFields(text string) (all fieldSelector, err error) {
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		var r fieldRequirement
		path, value, found := strings.Cut(part, "=")
		path, r.not = strings.CutSuffix(path, "!")
		r.value = strings.TrimPrefix(value, "=")
		if !found || path == "" {
			return nil, fmt.Errorf("--field-selector: %q is not of the form FIELD=VALUE or FIELD!=VALUE, such as metadata.name=reviews", part)
		}
		if r.path, err = output.ParsePath(path); err != nil {
			return nil, fmt.Errorf("--field-selector: %w", err)
		}
		all = append(all, r)
	}
	return all, nil
}

// written writes a resource as JSON.
type written func(*kinds.Resource) ([]byte, error)

// matches reports whether a resource has what all requirements ask for.
func (f fieldSelector) matches(r *kinds.Resource, write written) (bool, error) {
	if len(f) == 0 {
		return true, nil
	}
	text, err := write(r)
	if err != nil {
		return false, err
	}
	for _, one := range f {
		value, err := one.path.In(text)
		if err != nil || (value == one.value) == one.not {
			return false, err
		}
	}
	return true, nil
}

// sortBy sorts resources by the value at a path: numbers as such, then texts, then those without one.
func sortBy(path output.Path, all []*kinds.Resource, write written) error {
	values := map[kinds.Key]string{}
	for _, r := range all {
		text, err := write(r)
		if err != nil {
			return err
		}
		if values[r.Key()], err = path.In(text); err != nil {
			return err
		}
	}
	slices.SortStableFunc(all, func(a, b *kinds.Resource) int { return compareValues(values[a.Key()], values[b.Key()]) })
	return nil
}

func compareValues(a, b string) int {
	var x, y float64
	isX, isY := json.Unmarshal([]byte(a), &x) == nil, json.Unmarshal([]byte(b), &y) == nil
	switch {
	case isX && isY:
		return cmp.Compare(x, y)
	case isX != isY && a != "" && b != "":
		if isX {
			return -1
		}
		return 1
	case (a == "") != (b == ""):
		if a == "" {
			return 1
		}
		return -1
	}
	return strings.Compare(a, b)
}
