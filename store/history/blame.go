package history

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/store"
)

// BlamedField says which revision set a field. For a field older than history, Revision is 0 and
// Message says why.
type BlamedField struct {
	Path                         string
	Value                        json.RawMessage
	Revision                     store.Revision
	Time                         time.Time
	Author, Application, Message string
}

// Blame returns who set each field of a resource; ErrNotFound if there is no such resource.
func (s *Store) Blame(ctx context.Context, k kinds.Key) ([]BlamedField, error) {
	rows, err := s.db.Pool().Query(ctx, sql.Blame, k.Kind.Name, k.Namespace, k.Name, k.Kind.Group)
	if err != nil {
		return nil, store.Explain("looking who set the fields of "+k.String(), err)
	}
	fields, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (f BlamedField, err error) {
		var set *time.Time
		err = row.Scan(&f.Path, &f.Value, &f.Revision, &set, &f.Author, &f.Application, &f.Message)
		if set != nil {
			f.Time = *set
		}
		return f, err
	})
	err = store.Explain("looking who set the fields of "+k.String(), err)
	if errors.Is(err, store.ErrNotFound) || err == nil && len(fields) == 0 { // it never was, or is no more
		return nil, &store.NotFoundError{Key: k}
	}
	return fields, err
}
