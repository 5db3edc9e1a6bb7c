package store

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Adopter finds resources that came around the triggers, as out of a dump of their table alone. It remembers how far it has looked, so that it
// costs little to ask again; the zero value has not looked yet. It is for one goroutine.
type Adopter struct {
	Store *Store

	looked   bool
	inserted int64   // as it was before the last look
	through  *string // a transaction of Postgres
}

// Missed reports whether there may be some that nobody has looked at.
func (a *Adopter) Missed(c Chores) bool {
	return !a.looked || c.Inserted == 0 || c.Inserted != a.inserted
}

// Adopt makes a revision of them, and tells how many there were.
func (a *Adopter) Adopt(ctx context.Context, c Chores) (adopted int64, err error) {
	through := a.through
	err = a.Store.chore(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, "SELECT adopted, seen::text FROM mesh.adopt($1::text::xid8)", through).Scan(&adopted, &through)
	})
	if err != nil {
		a.Forget()
		return 0, explain("adopting resources that came around the triggers", err)
	}
	a.looked, a.inserted, a.through = true, c.Inserted, through
	return adopted, nil
}

// Forget is for when it may be another database the next time.
func (a *Adopter) Forget() { *a = Adopter{Store: a.Store} }
