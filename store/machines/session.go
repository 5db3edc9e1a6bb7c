package machines

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgmesh/pgmesh/store"
)

// ErrSessionEnded says that a session is not in force any more: everything has to be registered
// again in another.
var ErrSessionEnded = errors.New("the session has ended")

const codeSessionEnded = "MS007"

// Keeper identifies one run of a server that holds sessions. It is random, so that no two are the
// same.
type Keeper [16]byte

// State is the state of a machine's service.
type State string

// The states.
const (
	Here State = "here"
	Gone State = "gone" // its stream broke
	Left State = "left" // it said goodbye
)

// Change is a report about one service of one machine.
type Change struct {
	Namespace      string            `json:"namespace"`
	Group          string            `json:"workload_group"`
	Machine        string            `json:"machine"`
	ServiceAccount string            `json:"service_account"`
	Enrolment      string            `json:"enrolment"`
	Since          int64             `json:"since"`
	Address        string            `json:"address"`
	Network        string            `json:"network"`
	Locality       string            `json:"locality"`
	Labels         map[string]string `json:"labels"` // the machine's; the service's override them
	Ports          map[string]uint32 `json:"ports"`
	ServiceLabels  map[string]string `json:"service_labels"`
	Weight         uint32            `json:"weight"`
	Health         string            `json:"health"` // healthy, unhealthy, unknown or draining
	Detail         string            `json:"detail"`
	State          State             `json:"state"`
}

// Outcome is the result of a change: an entry, a refusal, or that a later change has superseded
// it.
type Outcome struct {
	Entry, Refused string
	Superseded     bool
}

// OpenSession opens a session of a discovery.
func (s *Store) OpenSession(ctx context.Context, by Keeper, server, discovery string) (id int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, store.QueryTimeout)
	defer cancel()
	err = s.db.Pool().QueryRow(ctx, sql.OpenSession, by, store.Storable(server), store.Storable(discovery)).Scan(&id)
	return id, store.Explain("opening a session of registrations", err)
}

// Register registers the changes of one message, whose number is higher than all before it in
// the session, in one transaction with an author. It also returns how many rows that wrote.
func (s *Store) Register(ctx context.Context, by Keeper, session, number int64, changes []Change, author string) (outcomes []Outcome, written int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, store.QueryTimeout)
	defer cancel()
	for i := range changes {
		changes[i] = changes[i].storable()
	}
	text, err := json.Marshal(changes)
	if err != nil {
		return nil, 0, store.Explain("registering machines", err)
	}
	err = s.inRegistration(ctx, author, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, sql.Register, by, session, number, text)
		if err != nil {
			return err
		}
		if outcomes, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Outcome]); err != nil {
			return err
		}
		return tx.QueryRow(ctx, sql.RowsWritten).Scan(&written)
	})
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch pg.Code {
		case codeSessionEnded:
			return nil, 0, ErrSessionEnded
		case "23505", store.CodeNoLock: // somebody has taken a name meanwhile, or is about to
			return nil, 0, store.ErrConflict
		}
	}
	return outcomes, written, store.Explain("registering machines", err)
}

// inRegistration runs a transaction in which each statement sees what was committed before it. It
// gives up rather than wait.
func (s *Store) inRegistration(ctx context.Context, author string, do func(pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, s.db.Pool(), pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sql.BeginRegistration, author); err != nil {
			return err
		}
		return do(tx)
	})
}

// storable returns the change with texts that Postgres accepts.
func (c Change) storable() Change {
	for _, text := range []*string{
		&c.Namespace, &c.Group, &c.Machine, &c.ServiceAccount, &c.Enrolment, &c.Address, &c.Network, &c.Locality, &c.Health, &c.Detail,
	} {
		*text = store.Storable(*text)
	}
	c.Labels, c.ServiceLabels = storableMap(c.Labels), storableMap(c.ServiceLabels)
	ports := map[string]uint32{}
	for name, number := range c.Ports {
		ports[store.Storable(name)] = number
	}
	c.Ports = ports
	return c
}

func storableMap(m map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range m {
		out[store.Storable(k)] = store.Storable(v)
	}
	return out
}

// RefreshSessions refreshes sessions whose streams still exist. It returns those in force, each
// with the number of its last registered message.
func (s *Store) RefreshSessions(ctx context.Context, by Keeper, sessions []int64) (map[int64]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, store.QueryTimeout)
	defer cancel()
	rows, err := s.db.Pool().Query(ctx, sql.RefreshSessions, by, sessions)
	if err != nil {
		return nil, store.Explain("refreshing sessions of registrations", err)
	}
	found := map[int64]int64{}
	var id, number int64
	_, err = pgx.ForEachRow(rows, []any{&id, &number}, func() error {
		found[id] = number
		return nil
	})
	return found, store.Explain("refreshing sessions of registrations", err)
}

// EndSessions ends sessions whose streams have ended.
func (s *Store) EndSessions(ctx context.Context, by Keeper, sessions []int64) error {
	ctx, cancel := context.WithTimeout(ctx, store.QueryTimeout)
	defer cancel()
	_, err := s.db.Pool().Exec(ctx, sql.EndSessions, by, sessions)
	return store.Explain("ending sessions of registrations", err)
}

// Clock is the state of the clock that measures how long machines are gone.
type Clock struct {
	Beat  int64 // how often the clock advanced
	Moved bool  // this call advanced it
	Idle  bool  // there is nothing to watch
}

// Watch advances the clock by step, if it still is at the beat seen, and ends sessions that were
// not refreshed for a lease. With step 0 it does not advance the clock.
func (s *Store) Watch(ctx context.Context, seen int64, step, lease time.Duration) (w Clock, err error) {
	ctx, cancel := context.WithTimeout(ctx, store.QueryTimeout)
	defer cancel()
	err = s.db.Chore(ctx, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, sql.Watch, seen, step.Milliseconds(), lease.Milliseconds()).
			Scan(&w.Beat, &w.Moved, &w.Idle)
	})
	return w, store.Explain("watching over machines", err)
}

// RemoveGone removes some services that were gone for the grace period, and returns how many.
func (s *Store) RemoveGone(ctx context.Context, grace time.Duration, atMost int, author string) (removed int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, store.QueryTimeout)
	defer cancel()
	err = s.inRegistration(ctx, author, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, sql.RemoveGone, grace.Milliseconds(), atMost).Scan(&removed)
	})
	return removed, store.Explain("removing machines that are gone", err)
}

// RemoveOrphaned removes entries of unknown machines, and returns how many.
func (s *Store) RemoveOrphaned(ctx context.Context, author string) (removed int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, store.QueryTimeout)
	defer cancel()
	err = s.inRegistration(ctx, author, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, sql.RemoveOrphaned).Scan(&removed)
	})
	return removed, store.Explain("removing entries of machines", err)
}
