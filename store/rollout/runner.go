package rollout

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/store"
)

// Runner is a connected proxy that a resource concerns.
type Runner struct {
	Listed

	RunsIt bool // as it is now
}

// Runners lists the connected proxies that a resource concerns, and returns the revision of its
// last change. There is no such resource if ok is false.
func (s *Store) Runners(ctx context.Context, may []string, of kinds.Key) (revision int64, list []Runner, ok bool, err error) {
	err = s.reading(ctx, may, func(ctx context.Context, tx pgx.Tx) error {
		revisions, err := ask(ctx, tx, pgx.RowTo[int64], sql.RevisionOf, of.Kind.Name+"."+of.Kind.Group, of.Namespace, of.Name)
		if ok = len(revisions) > 0; err != nil || !ok {
			return err
		}
		revision = revisions[0]
		list, err = ask(ctx, tx, func(row pgx.CollectableRow) (r Runner, err error) {
			err = r.scan(row, &r.RunsIt)
			return r, err
		}, sql.Runners, of.Kind.Name, of.Kind.Group, of.Namespace, of.Name)
		return err
	})
	return revision, list, ok, store.Explain("reading who runs a resource", err)
}
