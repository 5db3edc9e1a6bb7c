package kindtables

import (
	"strconv"
	"strings"

	"github.com/pgmesh/pgmesh/kinds/schema"
)

// unsupportedRow is something that resources of a kind may have and discovery does not act on.
type unsupportedRow struct {
	APIGroup  string   `json:"api_group"`
	Kind      string   `json:"kind"`
	Steps     []string `json:"steps"`
	Found     string   `json:"found"`
	Condition *string  `json:"condition"`
	Reason    string   `json:"reason"`
	Hint      *string  `json:"hint"`
	Position  int      `json:"position"`
}

func unsupportedRows() []unsupportedRow {
	var out []unsupportedRow
	for _, u := range schema.AllUnsupported() {
		for _, kind := range u.Kinds {
			out = append(out, unsupportedRow{
				APIGroup: u.Group, Kind: kind, Steps: u.Steps(), Found: finding(u.Steps()), Condition: optional(u.When),
				Reason: u.Reason, Hint: optional(u.Hint), Position: len(out) + 1,
			})
		}
	}
	return out
}

// finding returns the jsonpath of steps. Its lax mode unwraps lists.
func finding(steps []string) string {
	var b strings.Builder
	b.WriteString("$")
	for _, step := range steps {
		if step == "*" {
			b.WriteString(".*")
		} else {
			b.WriteString("." + strconv.Quote(step))
		}
	}
	return b.String()
}
