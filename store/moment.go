package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Moment is a point in history: a revision or a time. The zero value is now.
type Moment struct {
	Revision *Revision
	Time     time.Time
}

// When returns the moment at which a revision was the newest; 0 is the empty mesh before the first.
func When(r Revision) Moment { return Moment{Revision: &r} }

// IsNow reports whether the moment is now.
func (m Moment) IsNow() bool { return m.Revision == nil && m.Time.IsZero() }

// Resolve finds the revision of a moment. It does not check whether history has it.
func (m Moment) Resolve(ctx context.Context, tx pgx.Tx) (at, newest Revision, err error) {
	err = tx.QueryRow(ctx, sql.RevisionAt, m.Revision, NullTime(m.Time)).Scan(&at, &newest)
	return at, newest, err
}
