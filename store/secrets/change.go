package secrets

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/store"
)

// Change is the current state of a secret that a revision changed.
type Change struct {
	Key kinds.Key
	Now *Secret // nil if it is gone
	// Through is the last revision that changed the secret. Earlier values are not kept: a reader
	// that is behind gets the newest value, and has a consistent state again once it has read that
	// revision.
	Through store.Revision
}

// EachChange calls each with the secrets that some revisions changed, in the order of revisions and
// names.
func EachChange(ctx context.Context, conn *pgx.Conn, revisions []store.Revision, each func(store.Revision, Change)) error {
	rows, err := conn.Query(ctx, sql.ChangedSecrets, revisions)
	if err != nil {
		return err
	}
	var revision store.Revision
	var c Change
	var r row
	c.Key.Kind = kinds.Secret
	_, err = pgx.ForEachRow(rows, append([]any{&revision, &c.Key.Namespace, &c.Key.Name, &c.Through}, r.targets()...), func() (err error) {
		if c.Now, err = r.secret(); err == nil {
			each(revision, c)
		}
		return err
	})
	return err
}
