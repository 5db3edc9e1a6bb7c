package output

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
)

// Part is a part of the status of a resource of the Gateway API that has conditions of its own: a
// parent of a route, or a listener.
type Part struct {
	Title      string
	Conditions []Condition
}

// Parts are those in a list of the status: parents or listeners.
func (s *Status) Parts(list string) (out []Part) {
	var read []struct {
		Name           string
		AttachedRoutes int
		ParentRef      struct {
			Kind, Namespace, Name, SectionName string
			Port                               int
		}
		Conditions []Condition
	}
	text, err := json.Marshal(s.Own[list])
	if err != nil || json.Unmarshal(text, &read) != nil {
		return nil // of a newer server
	}
	for _, r := range read {
		part := Part{Title: fmt.Sprintf("%s (%s)", r.Name, words.Counted(r.AttachedRoutes, "route", "routes")), Conditions: r.Conditions}
		if to := r.ParentRef; to.Name != "" {
			part.Title = strings.Join(strings.Fields(fmt.Sprintf("%s %s %s", cmp.Or(to.Kind, "Gateway"), slashed(to.Namespace, to.Name), to.SectionName)), " ")
			if to.Port != 0 {
				part.Title += fmt.Sprintf(" port %d", to.Port)
			}
		}
		out = append(out, part)
	}
	return out
}

func slashed(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}
