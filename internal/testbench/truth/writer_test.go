package truth_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/wait"
)

// writer writes revisions, one at a time.
type writer struct {
	mesh    *mesh
	changes map[string]int // of each mark
	written int
}

// write changes marks in one transaction. While the database is away it tries again: no number is
// there twice, for what became of a commit may be unknown.
func (w *writer) write(ctx context.Context, marks ...mark) {
	for ctx.Err() == nil {
		if w.try(ctx, marks) == nil {
			w.written++
			return
		}
		wait.For(ctx, 50*time.Millisecond)
	}
}

func (w *writer) try(ctx context.Context, marks []mark) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var rows []string
	for _, m := range marks {
		w.changes[m.name]++
		rows = append(rows, fmt.Sprintf("('ServiceEntry', '%s', '%s', '%s')", m.namespace, m.name, m.spec(w.changes[m.name])))
	}
	_, err := w.mesh.db.Exec(ctx, `INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES `+strings.Join(rows, ", ")+`
		ON CONFLICT (kind, api_group, namespace, name) DO UPDATE SET spec = EXCLUDED.spec`)
	return err
}
