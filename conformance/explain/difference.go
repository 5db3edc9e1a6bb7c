package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Difference is one place at which what istiod sent and what discovery serves are not the same. An
// absent value is nil.
type Difference struct {
	Path             string
	Recorded, Served any
}

// shownLength bounds a value in a message.
const shownLength = 200

func (d Difference) String() string {
	return fmt.Sprintf("%s: istiod %s, discovery %s", d.Path, shown(d.Recorded), shown(d.Served))
}

func shown(value any) string {
	if value == nil {
		return "nothing"
	}
	text := fmt.Sprint(value)
	if len(text) > shownLength {
		return text[:shownLength] + "…"
	}
	return text
}

// differences lists where two trees are not the same. The order of lists counts: it does for Envoy.
func differences(path string, recorded, served any) []Difference {
	switch r := recorded.(type) {
	case map[string]any:
		if s, ok := served.(map[string]any); ok {
			return ofMembers(path, r, s)
		}
	case []any:
		if s, ok := served.([]any); ok {
			return ofItems(path, r, s)
		}
	default:
		if recorded == served {
			return nil
		}
	}
	return []Difference{{strings.TrimPrefix(path, "/"), recorded, served}}
}

func ofMembers(path string, recorded, served map[string]any) (all []Difference) {
	names := maps.Clone(recorded)
	maps.Copy(names, served)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		all = append(all, differences(path+"/"+name, recorded[name], served[name])...)
	}
	return all
}

// ofItems compares item by item. Lists of two lengths are one difference: behind the first item
// that one of them lacks, all others would differ.
func ofItems(path string, recorded, served []any) (all []Difference) {
	if len(recorded) != len(served) {
		return []Difference{{strings.TrimPrefix(path, "/"), listed(recorded), listed(served)}}
	}
	for i := range recorded {
		all = append(all, differences(fmt.Sprintf("%s/%d", path, i), recorded[i], served[i])...)
	}
	return all
}

// listed names the items of a list, or counts those without names.
func listed(items []any) string {
	var names []string
	for _, item := range items {
		if members, ok := item.(map[string]any); ok && members["name"] != nil {
			names = append(names, fmt.Sprint(members["name"]))
		}
	}
	if len(names) < len(items) {
		return fmt.Sprintf("%d items", len(items))
	}
	return fmt.Sprintf("%d items (%s)", len(items), strings.Join(names, ", "))
}
