package resources

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/internal/rows"
)

// Export calls each with every selected resource, as of one revision and in the order of their
// keys, and returns the revision. It streams the resources. It returns the first error of each.
func (s *Store) Export(ctx context.Context, sel Selection, at store.Moment, each func(*store.Resource) error) (store.Revision, error) {
	var revision store.Revision
	err := s.db.Reading(ctx, func(tx pgx.Tx) error {
		var newest store.Revision
		var err error
		if revision, newest, err = at.Resolve(ctx, tx); err != nil {
			return err
		}
		query := sql.ExportPast
		if revision == newest {
			query = sql.ExportNow
		}
		found, err := tx.Query(ctx, query, sel.arguments(revision)...)
		if err != nil {
			return err
		}
		return rows.EachResource(s.db, found, each)
	})
	if err != nil {
		return 0, store.Explain("exporting resources", err)
	}
	return revision, nil
}
