package store

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/kinds"
)

// Selection says which resources are meant. Its zero value means all, as they stand.
type Selection struct {
	Namespaces []string      // none stands for all
	Kinds      []*kinds.Kind // likewise
	Revision   Revision      // as of when; 0 is now
}

// Export calls each with every selected resource, all as of one revision and in the order of their keys, and returns the
// revision. The resources are streamed. If each fails, Export ends and returns its error.
func (s *Store) Export(ctx context.Context, sel Selection, each func(*Resource) error) (Revision, error) {
	var revision Revision
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, s.pool, options, func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, "SELECT coalesce(nullif($1, 0), mesh.newest_revision())", sel.Revision).Scan(&revision); err != nil {
			return err
		}
		from := "mesh.resources"
		if sel.Revision != 0 {
			from = "mesh.as_of($1::bigint)"
		}
		var of columns
		for _, k := range sel.Kinds {
			of.addKey(kinds.Key{Kind: k})
		}
		rows, err := tx.Query(ctx, "SELECT api_group, kind, namespace, name, "+bodyColumns+" FROM "+from+` r
			WHERE $1::bigint IS NOT NULL AND ($2::text[] IS NULL OR namespace = ANY ($2))
				AND ($3::text[] IS NULL OR (api_group, kind) IN (SELECT * FROM unnest($3::text[], $4::text[])))
			ORDER BY kind COLLATE "C", api_group COLLATE "C", namespace COLLATE "C", name COLLATE "C"`,
			revision, sel.Namespaces, of.groups, of.kinds)
		if err != nil {
			return err
		}
		return s.eachResource(rows, each)
	})
	if err != nil {
		return 0, explain("exporting resources", err)
	}
	return revision, nil
}
