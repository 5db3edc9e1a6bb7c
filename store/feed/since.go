package feed

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/store"
)

// Since reads the next batches after a position, and reports whether there are more. It is for
// callers that learn of commits elsewhere: Follow waits by itself, on its own connection. Like
// Follow it may return ErrTooOld.
func (f *Feed) Since(ctx context.Context, after Position) (batches []Batch, more bool, err error) {
	err = f.db.Reading(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, strings.ReplaceAll(sql.PageSettings, "SET ", "SET LOCAL ")); err != nil {
			return err
		}
		newest, mark, err := readPosition(ctx, tx.Conn(), after.Revision)
		if err != nil {
			return err
		}
		if newest < after.Revision || !after.is(mark) {
			return after.gone()
		}
		if newest == after.Revision {
			return nil
		}
		if batches, more, err = f.page(ctx, tx.Conn(), after); err != nil {
			return err
		}
		if len(batches) == 0 || batches[0].Revision != after.Revision+1 {
			return fmt.Errorf("%w: %d was seen, and the history begins later", ErrTooOld, after.Revision)
		}
		return nil
	})
	if err != nil {
		return nil, false, store.Explain("reading what was committed", err)
	}
	return batches, more, nil
}

// Newest returns the position of the newest revision; its revision is 0 if there is none.
func (f *Feed) Newest(ctx context.Context) (Position, error) {
	var at Position
	err := f.db.Pool().QueryRow(ctx, sql.Newest).Scan(&at.Revision, &at.Mark)
	if errors.Is(err, pgx.ErrNoRows) {
		return Position{}, nil
	}
	return at, store.Explain("looking for the newest revision", err)
}
