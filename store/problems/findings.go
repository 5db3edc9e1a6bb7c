package problems

import (
	"context"
	"encoding/json"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/store"
)

// Finding is a problem with a resource that only a program can find.
type Finding struct {
	Severity string `json:"severity"` // error, warning or info
	Code     string `json:"code"`
	Path     string `json:"path"`
	Message  string `json:"message"`
	Hint     string `json:"hint,omitempty"`
}

// Examined is a resource at a revision, with its findings, if any.
type Examined struct {
	Key      kinds.Key
	Revision int64
	Findings []Finding
}

// Report stores findings for mesh.problems, in place of the same source's earlier findings about
// these resources. A finding counts while its resource stays at that revision. Several programs may
// report the same. On a hot standby it reports nothing: that has its primary's findings.
func (s *Store) Report(ctx context.Context, source string, examined []Examined) error {
	type row struct {
		Group     string    `json:"api_group"`
		Kind      string    `json:"kind"`
		Namespace string    `json:"namespace"`
		Name      string    `json:"name"`
		Revision  int64     `json:"revision"`
		Findings  []Finding `json:"findings"`
	}
	rows := make([]row, len(examined))
	for i, e := range examined {
		rows[i] = row{e.Key.Kind.Group, e.Key.Kind.Name, e.Key.Namespace, e.Key.Name, e.Revision, append([]Finding{}, e.Findings...)}
	}
	list, err := json.Marshal(rows)
	if err == nil {
		_, err = s.db.Pool().Exec(ctx, sql.ReportFindings, source, list)
	}
	return store.Explain("reporting what was found wrong with resources", err)
}
