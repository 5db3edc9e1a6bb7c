package store

import (
	"context"
	"encoding/json"

	"github.com/pgmesh/pgmesh/kinds"
)

// Finding is something wrong with a resource that the database cannot judge.
type Finding struct {
	Severity string `json:"severity"` // error, warning or info
	Code     string `json:"code"`
	Path     string `json:"path"`
	Message  string `json:"message"`
	Hint     string `json:"hint,omitempty"`
}

// Examined is a resource at a revision with what was found, which may be nothing.
type Examined struct {
	Key      kinds.Key
	Revision int64
	Findings []Finding
}

// ReportFindings puts what an examination has found into mesh.problems, in place of what it had found before of the same resources. A
// finding counts for as long as its resource stays as it was examined. Any number of programs may report the same. To a hot standby
// nothing can be reported: it has what was reported to its primary.
func (s *Store) ReportFindings(ctx context.Context, source string, examined []Examined) error {
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
		_, err = s.pool.Exec(ctx, "SELECT CASE WHEN NOT pg_is_in_recovery() THEN mesh.report_findings($1, $2) END", source, list)
	}
	return explain("reporting what was found wrong with resources", err)
}
