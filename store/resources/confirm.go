package resources

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/store"
)

// Confirmation is a change that is or was to be confirmed.
type Confirmation struct {
	Revision        store.Revision
	Author, Message string
	State           string // waiting, confirmed, reverted or conflict
	Deadline        time.Time
	Within          time.Duration
	EndedAt         time.Time // zero while it waits
	EndedBy         string
	RevertedBy      store.Revision
	Conflicts       []Unreverted
}

// Unreverted is a resource that could not be reverted.
type Unreverted struct {
	Kind      string         `json:"kind"`
	Namespace string         `json:"namespace"`
	Name      string         `json:"name"`
	ChangedBy store.Revision `json:"changed_by"`
	Reason    string         `json:"reason"`
}

// Confirmations lists the changes in some states, or in all if none are given, the newest first.
func (s *Store) Confirmations(ctx context.Context, states []string, atMost int) ([]Confirmation, error) {
	rows, err := s.db.Pool().Query(ctx, sql.Confirmations, states, atMost)
	if err != nil {
		return nil, store.Explain("listing confirmations", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (c Confirmation, err error) {
		var seconds float64
		var ended *time.Time
		err = row.Scan(&c.Revision, &c.Author, &c.Message, &c.State, &c.Deadline, &seconds, &ended, &c.EndedBy, &c.RevertedBy, &c.Conflicts)
		c.Within = time.Duration(seconds * float64(time.Second))
		if ended != nil {
			c.EndedAt = *ended
		}
		return c, err
	})
	return list, store.Explain("listing confirmations", err)
}

// Confirm keeps a change, in the name of an author, and returns its revision. 0 stands for the only
// change that waits.
func (s *Store) Confirm(ctx context.Context, r store.Revision, author string) (confirmed store.Revision, err error) {
	err = store.InTheNameOf(ctx, s.db.Pool(), author, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, sql.Confirm, r).Scan(&confirmed)
	})
	return confirmed, store.Explain("confirming a change", err)
}
