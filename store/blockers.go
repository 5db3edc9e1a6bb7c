package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Blocker is a session of the database that others of the mesh wait for, or that keeps the queue of notifications from emptying.
type Blocker struct {
	PID         int
	Role        string
	Application string
	Client      string
	State       string
	Since       time.Time // zero where that is hidden from the database role
	Reason      string
	Waiting     int
	Waited      time.Duration
	Query       string
}

// String names the blocker for a message.
func (b Blocker) String() string {
	who := fmt.Sprintf("the session %d of the role %s", b.PID, b.Role)
	if b.Application != "" {
		who += fmt.Sprintf(" (%q)", b.Application)
	}
	if !b.Since.IsZero() {
		who += ", in a transaction since " + b.Since.UTC().Format(time.RFC3339)
	}
	return who
}

// Blockers lists them, the one with the longest wait first.
func (s *Store) Blockers(ctx context.Context) ([]Blocker, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	rows, err := s.trust.Query(ctx, `SELECT pid, coalesce(role, ''), coalesce(application, ''), coalesce(client, ''), coalesce(state, ''),
		coalesce(since, '0001-01-01Z'), reason, waiting, coalesce(waited, '0'), coalesce(query, '') FROM mesh.blockers ORDER BY waited DESC NULLS LAST, pid`)
	if err != nil {
		return nil, explain("looking for who is in the way", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Blocker])
	return list, explain("looking for who is in the way", err)
}

// EndBlocker ends the session of one, as long as it is in the way.
func (s *Store) EndBlocker(ctx context.Context, pid int) error {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	var ended bool
	err := s.trust.QueryRow(ctx, "SELECT mesh.end_blocker($1)", pid).Scan(&ended)
	return explainInput(fmt.Sprintf("ending the session %d", pid), err)
}

// lockPatience is how long a change waits for what another session has locked, before it is given up and whoever asked for it is told.
const lockPatience = 6 * time.Second

// BlockedError says that a change was given up because another session has locked what it needs.
type BlockedError struct {
	By []Blocker // those that were seen in the way, which may be none
}

func (e *BlockedError) Error() string {
	if len(e.By) == 0 {
		return fmt.Sprintf("nothing was changed: another session of the database has locked what this needs, for longer than %s; mcp-server blockers lists who is in the way, run this again later", lockPatience)
	}
	names := make([]string, len(e.By))
	for i, b := range e.By {
		names[i] = b.String()
	}
	return fmt.Sprintf("nothing was changed: what this needs is locked, for longer than %s, by %s; have it commit, or end it: mcp-server blockers --end %d",
		lockPatience, strings.Join(names, ", and by "), e.By[0].PID)
}

// suspect looks who is in the way, shortly before a change is given up that waits from now on. The function returned tells whom it has seen.
func (s *Store) suspect(ctx context.Context) (seen func() []Blocker) {
	found := make(chan []Blocker, 1)
	look := time.AfterFunc(lockPatience-time.Second, func() {
		list, err := s.Blockers(ctx)
		if err != nil {
			list = nil // the change fails in any case, and says why
		}
		found <- list
	})
	return func() []Blocker {
		if look.Stop() {
			return nil
		}
		return <-found
	}
}

// blocked makes a BlockedError of one that says that a lock was not to be had.
func (s *Store) blocked(err error, suspects func() []Blocker) error {
	by := suspects()
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "55P03" {
		return &BlockedError{by}
	}
	return err
}
