package issue

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
)

// has reports whether a claim has a value, or has a list with this value in it. The name of a claim
// may contain dots, as kubernetes.io does.
func has(claim any, path []string, want string) bool {
	if len(path) == 0 {
		return holds(claim, want)
	}
	members, _ := claim.(map[string]any)
	for n := range path {
		if member, there := members[strings.Join(path[:n+1], ".")]; there && has(member, path[n+1:], want) {
			return true
		}
	}
	return false
}

// holds compares a value with its text in JSON, but strings without their quotes.
func holds(value any, want string) bool {
	switch v := value.(type) {
	case string:
		return v == want
	case []any:
		return slices.ContainsFunc(v, func(item any) bool {
			_, nested := item.([]any)
			return !nested && holds(item, want)
		})
	case bool, float64, json.Number:
		text, err := json.Marshal(v)
		return err == nil && string(text) == want
	default:
		return false
	}
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
