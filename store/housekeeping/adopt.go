package housekeeping

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/store"
)

// Adopter finds resources that came around the triggers, for example from a dump of their table
// alone. It remembers how far it has looked, so looking again is cheap. The zero value has not
// looked yet. It is not safe for concurrent use.
type Adopter struct {
	Store *Store

	looked   bool
	inserted int64   // the count before the last look
	through  *string // a transaction of Postgres
}

// Missed reports whether there may be resources that Adopt has not looked at.
func (a *Adopter) Missed(c Chores) bool {
	return !a.looked || c.Inserted == 0 || c.Inserted != a.inserted
}

// Adopt makes a revision of these resources, and returns how many there were.
func (a *Adopter) Adopt(ctx context.Context, c Chores) (adopted int64, err error) {
	through := a.through
	err = a.Store.db.Chore(ctx, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, sql.Adopt, through).Scan(&adopted, &through)
	})
	if err != nil {
		a.Forget()
		return 0, store.Explain("adopting resources that came around the triggers", err)
	}
	a.looked, a.inserted, a.through = true, c.Inserted, through
	return adopted, nil
}

// Forget makes the next look start anew, for when it may be at another database.
func (a *Adopter) Forget() { *a = Adopter{Store: a.Store} }
