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

// Blocker is a session that blocks others: a row of mesh.blockers. What Postgres does not show is
// empty.
type Blocker struct {
	Reason       string // lock, queue or idle
	PID          int32
	Role         string
	Database     string
	Application  string
	Client       string // its address
	State        string
	Since        time.Time // when its transaction began
	WaitingSince time.Time // since when others wait for it
	Blocks       []int32   // the pids of those that wait
	Query        string    // its beginning
	Server       bool      // its role may act as a server of the mesh
	Transaction  string    // identifies its transaction
}

// String describes the session, for logs and errors. It quotes text that others chose.
func (b *Blocker) String() string {
	var about []string
	add := func(form, text string) {
		if text != "" {
			about = append(about, fmt.Sprintf(form, text))
		}
	}
	add("application %q", b.Application)
	add("from %s", b.Client)
	add("%s", b.State)
	if !b.Since.IsZero() {
		add("since %s", b.Since.UTC().Format(time.RFC3339))
	}
	text := fmt.Sprintf("session %d of the role %q", b.PID, b.Role)
	if len(about) > 0 {
		text += " (" + strings.Join(about, ", ") + ")"
	}
	return text
}

// Blockers lists the sessions that block others.
func (s *Store) Blockers(ctx context.Context) ([]Blocker, error) {
	list, err := s.blockers(ctx, sql.Blockers)
	return list, Explain("looking for sessions that others wait for", err)
}

// blockersOf lists the sessions that block a session.
func (s *Store) blockersOf(ctx context.Context, pid uint32) ([]Blocker, error) {
	return s.blockers(ctx, sql.BlockersOf, int32(pid))
}

func (s *Store) blockers(ctx context.Context, query string, args ...any) ([]Blocker, error) {
	ctx, cancel := context.WithTimeout(ctx, QueryTimeout)
	defer cancel()
	rows, err := s.trust.Query(context.WithValue(ctx, tracerKey{}, true), query, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Blocker])
}

// EndBlocker ends a blocking session, if it still is in the given transaction; "" stands for any.
func (s *Store) EndBlocker(ctx context.Context, pid int32, transaction string) error {
	ctx, cancel := context.WithTimeout(ctx, QueryTimeout)
	defer cancel()
	_, err := s.trust.Exec(ctx, sql.EndBlocker, pid, transaction)
	if pg, is := errors.AsType[*pgconn.PgError](err); is && pg.Code == "42501" {
		return &RefusedError{Reason: pg.Message, Advice: pg.Hint}
	}
	return ExplainInput("ending a session that others wait for", err)
}

// QueueUsage returns how full the notification queue is, from 0 to 1.
func (s *Store) QueueUsage(ctx context.Context) (usage float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, QueryTimeout)
	defer cancel()
	err = s.trust.QueryRow(ctx, sql.QueueUsage).Scan(&usage)
	return usage, Explain("asking how full the queue of notifications is", err)
}
