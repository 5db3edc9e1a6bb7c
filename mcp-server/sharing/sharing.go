// Package sharing checks whether a database is set up to be shared with tenants: roles that the
// owner of the mesh trusts only with their namespaces. Postgres lets whoever may connect do much
// that a schema cannot forbid.
package sharing

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Severity is the severity of a finding.
type Severity string

// An error gives somebody the mesh who was not granted it; a warning lets somebody hold it up; a
// note is worth knowing.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Note    Severity = "note"
)

// Finding is something to change.
type Finding struct {
	Severity Severity `json:"severity"`
	What     string   `json:"what"`
	Why      string   `json:"why"`
	Fix      string   `json:"fix"` // a statement to run, or a setting to change
}

// check finds problems of one type. Its query returns each problem and its fix.
type check struct {
	severity Severity
	why      string
	query    string
}

// Check returns what to change, the most severe first. It changes nothing.
func Check(ctx context.Context, url string) ([]Finding, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("connecting to the database: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var may bool
	if err := conn.QueryRow(ctx, "SELECT mesh_internal.speaks_for_others()").Scan(&may); err != nil {
		return nil, fmt.Errorf("looking at the schema mesh: %w (mcp-server migrate up makes it; then connect as its owner)", err)
	}
	if !may {
		return nil, fmt.Errorf("the role %q is neither the owner of the mesh nor a server's, and sees too little: connect as the owner", conn.Config().User)
	}
	var found []Finding
	for _, c := range checks {
		some, err := c.run(ctx, conn)
		if err != nil {
			return nil, err
		}
		found = append(found, some...)
	}
	return found, nil
}

func (c *check) run(ctx context.Context, conn *pgx.Conn) ([]Finding, error) {
	rows, err := conn.Query(ctx, commonTables+c.query)
	if err != nil {
		return nil, fmt.Errorf("checking the database: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Finding, error) {
		f := Finding{Severity: c.severity, Why: c.why}
		return f, row.Scan(&f.What, &f.Fix)
	})
	if err != nil {
		return nil, fmt.Errorf("checking the database: %w", err)
	}
	return found, nil
}
