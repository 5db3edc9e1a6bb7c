package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Problem is something that is, or may be, wrong between resources, reported at one of them.
type Problem struct {
	Severity                     string // error, warning or info
	Code                         string // identifies the type of problem
	Group, Kind, Namespace, Name string
	Path                         string // empty for the resource as a whole
	Message, Hint                string
}

func (p Problem) String() string {
	return fmt.Sprintf("%s: %s: %s", p.resource(), p.Path, p.Message)
}

func (p Problem) resource() string { return fmt.Sprintf("%s %s/%s", p.Kind, p.Namespace, p.Name) }

// Reading has the namespaces that a server's caller may read. A nil Reading means everything that the
// server may read.
type Reading struct{ Namespaces []string }

// setting is the value of mesh.reading. A namespace's name is never empty.
func (r *Reading) setting() string {
	if r == nil {
		return ""
	}
	return strings.Join(append([]string{""}, r.Namespaces...), ",")
}

// Problems lists the problems of committed resources in some namespaces, or in all if none are given, the
// worst first. Other resources are named only as far as the reader may know them.
func (s *Store) Problems(ctx context.Context, reading *Reading, namespaces ...string) (list []Problem, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT set_config('mesh.reading', $1, true)", reading.setting()); err != nil {
			return err
		}
		list, err = problems(ctx, tx, namespaces)
		return err
	})
	return list, Explain("looking for problems", err)
}

func problems(ctx context.Context, tx pgx.Tx, namespaces []string) ([]Problem, error) {
	rows, err := tx.Query(ctx, `
		SELECT severity, code, api_group, kind, namespace, name, path, message, coalesce(hint, '') FROM mesh.problems
		WHERE $1::text[] IS NULL OR namespace = ANY ($1)
		ORDER BY array_position('{error,warning,info}', severity), namespace, kind, name, path`, namespaces)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Problem])
}

// warnings are the problems that Postgres reports in notices at commit.
type warnings struct {
	conn    *pgconn.PgConn
	list    []Problem
	omitted int
}

const warningsKey = "warnings" // in the custom data of a connection

// collectWarnings starts to gather the warnings of a connection.
func collectWarnings(conn *pgx.Conn) *warnings {
	w := &warnings{conn: conn.PgConn()}
	w.conn.CustomData()[warningsKey] = w
	return w
}

func (w *warnings) end() (list []Problem, omitted int) {
	delete(w.conn.CustomData(), warningsKey)
	return w.list, w.omitted
}

// receiveNotice handles a notice of the database. Notices are dropped while nobody gathers them.
func receiveNotice(conn *pgconn.PgConn, n *pgconn.Notice) {
	w, listening := conn.CustomData()[warningsKey].(*warnings)
	if !listening || n.Code != CodeDangling {
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
