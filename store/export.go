package store

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Export calls each with every selected resource, as of one revision and in the order of their keys, and
// returns the revision. It streams the resources. It returns the first error of each.
func (s *Store) Export(ctx context.Context, sel Selection, at Moment, each func(*Resource) error) (Revision, error) {
	var revision Revision
	err := s.Reading(ctx, func(tx pgx.Tx) error {
		var newest Revision
		var err error
		if revision, newest, err = at.resolve(ctx, tx); err != nil {
			return err
		}
		from := "mesh.as_of($1::bigint)"
		if revision == newest {
			from = resourceRows
		}
		rows, err := tx.Query(ctx, "SELECT api_group, kind, namespace, name, "+bodyColumns+" FROM "+from+" r WHERE "+selected+`
			ORDER BY kind COLLATE "C", api_group COLLATE "C", namespace COLLATE "C", name COLLATE "C"`, sel.arguments(revision)...)
		if err != nil {
			return err
		}
		return s.eachResource(rows, each)
	})
	if err != nil {
		return 0, Explain("exporting resources", err)
	}
	return revision, nil
}
