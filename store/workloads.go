package store

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ErrSessionEnded says that a session is not in force any more: everything has to be registered again in
// another.
var ErrSessionEnded = errors.New("the session has ended")

const codeSessionEnded = "MS007"

// Keeper identifies one run of a server that holds sessions. It is random, so that no two are the same.
type Keeper [16]byte

// WorkloadState is the state of a machine's service.
type WorkloadState string

// The states.
const (
	WorkloadHere WorkloadState = "here"
	WorkloadGone WorkloadState = "gone" // its stream broke
	WorkloadLeft WorkloadState = "left" // it said goodbye
)

// WorkloadChange is a report about one service of one machine.
type WorkloadChange struct {
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
	Health         string            `json:"health"` // healthy, unhealthy or unknown
	Detail         string            `json:"detail"`
	State          WorkloadState     `json:"state"`
}

// WorkloadOutcome is the result of a change: an entry, a refusal, or that a later change has superseded
// it.
type WorkloadOutcome struct {
	Entry, Refused string
	Superseded     bool
}

// OpenWorkloadSession opens a session of a discovery.
func (s *Store) OpenWorkloadSession(ctx context.Context, by Keeper, server, discovery string) (id int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, QueryTimeout)
	defer cancel()
	err = s.pool.QueryRow(ctx, "SELECT mesh.open_workload_session($1, $2, $3)", by, Storable(server), Storable(discovery)).Scan(&id)
	return id, Explain("opening a session of registrations", err)
}

// RegisterWorkloads registers the changes of one message, whose number is higher than all before it in
// the session, in one transaction with an author. It also returns how many rows that wrote.
func (s *Store) RegisterWorkloads(ctx context.Context, by Keeper, session, number int64, changes []WorkloadChange, author string) (outcomes []WorkloadOutcome, written int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, QueryTimeout)
	defer cancel()
	for i := range changes {
		changes[i] = changes[i].storable()
	}
	text, err := json.Marshal(changes)
	if err != nil {
		return nil, 0, Explain("registering machines", err)
	}
	err = s.inRegistration(ctx, author, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, "SELECT coalesce(entry, ''), coalesce(refused, ''), superseded FROM mesh.register_workloads($1, $2, $3, $4) ORDER BY place", by, session, number, text)
		if err != nil {
			return err
		}
		if outcomes, err = pgx.CollectRows(rows, pgx.RowToStructByPos[WorkloadOutcome]); err != nil {
			return err
		}
		return tx.QueryRow(ctx, rowsWrittenQuery).Scan(&written)
	})
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch pg.Code {
		case codeSessionEnded:
			return nil, 0, ErrSessionEnded
		case "23505", CodeNoLock: // somebody has taken a name meanwhile, or is about to
			return nil, 0, ErrConflict
		}
	}
	return outcomes, written, Explain("registering machines", err)
}

// rowsWrittenQuery counts the rows that the running transaction has written.
const rowsWrittenQuery = "SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0)::bigint FROM pg_stat_xact_user_tables WHERE schemaname = 'mesh'"

// inRegistration runs a transaction in which each statement sees what was committed before it. It gives
// up rather than wait.
func (s *Store) inRegistration(ctx context.Context, author string, do func(pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT set_config('mesh.author', $1, true), set_config('lock_timeout', '2s', true)", author); err != nil {
			return err
		}
		return do(tx)
	})
}

// storable returns the change with texts that Postgres accepts.
func (c WorkloadChange) storable() WorkloadChange {
	for _, text := range []*string{
		&c.Namespace, &c.Group, &c.Machine, &c.ServiceAccount, &c.Enrolment, &c.Address, &c.Network, &c.Locality, &c.Health, &c.Detail,
	} {
		*text = Storable(*text)
	}
	c.Labels, c.ServiceLabels = storableMap(c.Labels), storableMap(c.ServiceLabels)
	ports := map[string]uint32{}
	for name, number := range c.Ports {
		ports[Storable(name)] = number
	}
	c.Ports = ports
	return c
}

func storableMap(m map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range m {
		out[Storable(k)] = Storable(v)
	}
	return out
}

// RefreshWorkloadSessions refreshes sessions whose streams still exist. It returns those in force, each
// with the number of its last registered message.
func (s *Store) RefreshWorkloadSessions(ctx context.Context, by Keeper, sessions []int64) (map[int64]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, QueryTimeout)
	defer cancel()
	rows, err := s.pool.Query(ctx, "SELECT session, number FROM mesh.refresh_workload_sessions($1, $2)", by, sessions)
	if err != nil {
		return nil, Explain("refreshing sessions of registrations", err)
	}
	found := map[int64]int64{}
	var id, number int64
	_, err = pgx.ForEachRow(rows, []any{&id, &number}, func() error {
		found[id] = number
		return nil
	})
	return found, Explain("refreshing sessions of registrations", err)
}

// EndWorkloadSessions ends sessions whose streams have ended.
func (s *Store) EndWorkloadSessions(ctx context.Context, by Keeper, sessions []int64) error {
	ctx, cancel := context.WithTimeout(ctx, QueryTimeout)
	defer cancel()
	_, err := s.pool.Exec(ctx, "SELECT mesh.end_workload_sessions($1, $2)", by, sessions)
	return Explain("ending sessions of registrations", err)
}

// WorkloadWatch is the state of the clock that measures how long machines are gone.
type WorkloadWatch struct {
	Beat  int64 // how often the clock advanced
	Moved bool  // this call advanced it
	Idle  bool  // there is nothing to watch
}

// WatchWorkloads advances the clock by step, if it still is at the beat seen, and ends sessions that were
// not refreshed for a lease. With step 0 it does not advance the clock.
func (s *Store) WatchWorkloads(ctx context.Context, seen int64, step, lease time.Duration) (w WorkloadWatch, err error) {
	ctx, cancel := context.WithTimeout(ctx, QueryTimeout)
	defer cancel()
	err = s.Chore(ctx, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, "SELECT beat, moved, idle FROM mesh.watch_workloads($1, $2, $3)", seen, step.Milliseconds(), lease.Milliseconds()).
			Scan(&w.Beat, &w.Moved, &w.Idle)
	})
	return w, Explain("watching over machines", err)
}

// RemoveGoneWorkloads removes some services that were gone for the grace period, and returns how many.
func (s *Store) RemoveGoneWorkloads(ctx context.Context, grace time.Duration, atMost int, author string) (removed int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, QueryTimeout)
	defer cancel()
	err = s.inRegistration(ctx, author, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, "SELECT mesh.remove_gone_workloads($1, $2)", grace.Milliseconds(), atMost).Scan(&removed)
	})
	return removed, Explain("removing machines that are gone", err)
}

// RemoveOrphanedWorkloads removes entries of unknown machines, and returns how many.
func (s *Store) RemoveOrphanedWorkloads(ctx context.Context, author string) (removed int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, QueryTimeout)
	defer cancel()
	err = s.inRegistration(ctx, author, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, "SELECT mesh.remove_orphaned_workloads()").Scan(&removed)
	})
	return removed, Explain("removing entries of machines", err)
}
