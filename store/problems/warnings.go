package problems

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgmesh/pgmesh/store"
)

// Warnings are the problems that Postgres reports in notices at commit.
type Warnings struct {
	stop    func()
	list    []Problem
	omitted int
}

// CollectWarnings starts to gather the warnings of a connection.
func CollectWarnings(conn *pgx.Conn) *Warnings {
	w := &Warnings{}
	w.stop = store.HearNotices(conn, w.receive)
	return w
}

// End returns the warnings, and how many more there were.
func (w *Warnings) End() (list []Problem, omitted int) {
	w.stop()
	return w.list, w.omitted
}

func (w *Warnings) receive(n *pgconn.Notice) {
	if n.Code != store.CodeDangling {
		return
	}
	p, whole := problemOf(n)
	if whole {
		w.list = append(w.list, p)
		return
	}
	// This notice says how many problems there are beyond those listed.
	_, _ = fmt.Sscanf(n.Message, "and %d more", &w.omitted)
}

// problemOf parses a warning. The object names in it are the resource's.
func problemOf(n *pgconn.Notice) (Problem, bool) {
	severity, code, found := strings.Cut(n.ConstraintName, " ")
	if !found {
		return Problem{}, false
	}
	p := Problem{Severity: severity, Code: code, Namespace: n.SchemaName, Name: n.TableName, Path: n.ColumnName, Hint: n.Hint}
	p.Kind, p.Group, _ = strings.Cut(n.DataTypeName, ".")
	p.Message = strings.TrimPrefix(n.Message, p.resource()+": ")
	if p.Path != "" {
		p.Message = strings.TrimPrefix(p.Message, p.Path+": ")
	}
	return p, true
}
