// Package problems knows what is wrong with resources: between them, and with each of them.
package problems

import (
	"context"
	"embed"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/query"
)

// Store is what is wrong with the resources of a database. Its methods may be called concurrently.
type Store struct{ db *store.Store }

// New returns the problems of a database.
func New(db *store.Store) *Store { return &Store{db} }

//go:embed queries
var files embed.FS

var sql = query.Read[struct {
	ReadFor, Problems, ReportFindings string
}](files)

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

// Reading has the namespaces that a server's caller may read. A nil Reading means everything that
// the server may read.
type Reading struct{ Namespaces []string }

// Setting is the value of mesh.reading, whose empty value means everything. So a list begins with
// a comma, also an empty one: a namespace's name is never empty.
func (r *Reading) Setting() string {
	if r == nil {
		return ""
	}
	return "," + strings.Join(r.Namespaces, ",")
}

// List lists the problems of committed resources in some namespaces, or in all if none are given,
// the worst first. Other resources are named only as far as the reader may know them.
func (s *Store) List(ctx context.Context, reading *Reading, namespaces ...string) (list []Problem, err error) {
	err = pgx.BeginFunc(ctx, s.db.Pool(), func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sql.ReadFor, reading.Setting()); err != nil {
			return err
		}
		list, err = collect(ctx, tx, namespaces)
		return err
	})
	return list, store.Explain("looking for problems", err)
}

func collect(ctx context.Context, tx pgx.Tx, namespaces []string) ([]Problem, error) {
	rows, err := tx.Query(ctx, sql.Problems, namespaces)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Problem])
}
