package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Confirmation is a change that is or was to be confirmed.
type Confirmation struct {
	Revision        Revision
	Author, Message string
	State           string // waiting, confirmed, reverted or conflict
	Deadline        time.Time
	Within          time.Duration
	EndedAt         time.Time // zero while it waits
	EndedBy         string
	RevertedBy      Revision
	Conflicts       []Unreverted
}

// Unreverted is a resource that could not be reverted.
type Unreverted struct {
	Kind      string   `json:"kind"`
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	ChangedBy Revision `json:"changed_by"`
	Reason    string   `json:"reason"`
}

const confirmationsQuery = `SELECT revision, author, message, state, deadline, extract(epoch FROM within)::float8, ended_at, coalesce(ended_by, ''),
		coalesce(reverted_by, 0), conflicts
	FROM mesh.confirmations WHERE $1::text[] IS NULL OR state = ANY ($1) ORDER BY revision DESC LIMIT $2`

// Confirmations lists the changes in some states, or in all if none are given, the newest first.
func (s *Store) Confirmations(ctx context.Context, states []string, atMost int) ([]Confirmation, error) {
	rows, err := s.pool.Query(ctx, confirmationsQuery, states, atMost)
	if err != nil {
		return nil, Explain("listing confirmations", err)
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
	return list, Explain("listing confirmations", err)
}

const confirmQuery = "SELECT mesh.confirm(nullif($1::bigint, 0))"

// Confirm keeps a change, in the name of an author, and returns its revision. 0 stands for the only
// change that waits.
func (s *Store) Confirm(ctx context.Context, r Revision, author string) (confirmed Revision, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT set_config('mesh.author', $1, true)", author); err != nil {
			return err
		}
		return tx.QueryRow(ctx, confirmQuery, r).Scan(&confirmed)
	})
	return confirmed, Explain("confirming a change", err)
}
