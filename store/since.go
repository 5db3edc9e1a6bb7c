package store

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Since reads the next batches after a position, and reports whether there are more. It is for callers
// that learn of commits elsewhere: Follow waits by itself, on its own connection. Like Follow it may
// return ErrTooOld.
func (s *Store) Since(ctx context.Context, after Position) (batches []Batch, more bool, err error) {
	err = s.Reading(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, strings.ReplaceAll(pageSettings, "SET ", "SET LOCAL ")); err != nil {
			return err
		}
		newest, mark, err := (&follower{store: s, seen: after}).position(ctx, tx.Conn())
		if err != nil {
			return err
		}
		if newest < after.Revision || after.Mark != "" && mark != after.Mark {
			return fmt.Errorf("%w: revision %d was seen and the database does not have it: it was restored, or failed over to a standby that lagged", ErrTooOld, after.Revision)
		}
		if newest == after.Revision {
			return nil
		}
		if batches, more, err = s.page(ctx, tx.Conn(), after.Revision); err != nil {
			return err
		}
		if len(batches) == 0 || batches[0].Revision != after.Revision+1 {
			return fmt.Errorf("%w: %d was seen, and the history begins later", ErrTooOld, after.Revision)
		}
		return nil
	})
	if err != nil {
		return nil, false, Explain("reading what was committed", err)
	}
	return batches, more, nil
}

// Newest returns the position of the newest revision; its revision is 0 if there is none.
func (s *Store) Newest(ctx context.Context) (Position, error) {
	var at Position
	err := s.pool.QueryRow(ctx, newestQuery).Scan(&at.Revision, &at.Mark)
	if errors.Is(err, pgx.ErrNoRows) {
		return Position{}, nil
	}
	return at, Explain("looking for the newest revision", err)
}

const newestQuery = "SELECT t.revision, " + markColumn + " FROM mesh.transactions t WHERE t.revision > 0 ORDER BY t.revision DESC LIMIT 1"
