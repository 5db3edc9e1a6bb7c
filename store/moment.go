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

func (m Moment) time() *time.Time { return NullTime(m.Time) }

// momentQuery returns the revision of a moment, and the newest.
const momentQuery = "SELECT coalesce($1, mesh.revision_at($2), mesh.newest_revision()), mesh.newest_revision()"

// resolve finds the revision of a moment. It does not check whether history has it.
func (m Moment) resolve(ctx context.Context, tx pgx.Tx) (at, newest Revision, err error) {
	err = tx.QueryRow(ctx, momentQuery, m.Revision, m.time()).Scan(&at, &newest)
	return at, newest, err
}
