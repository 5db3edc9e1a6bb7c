package machines

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgmesh/pgmesh/store"
)

// ErrConnected says that a machine is connected, and therefore is not removed.
var ErrConnected = errors.New("it is connected")

// Registered is one service of one machine.
type Registered struct {
	Namespace, Machine, Group  string
	State                      string // here or gone
	Entry, Refused             string // its WorkloadEntry, or why it has none
	Address, Network, Locality string
	Health, Detail             string
	ServiceAccount, Enrolment  string
	Labels                     map[string]string
	Ports                      map[string]uint32
	Weight                     uint32
	Discovery, Server          string
	Since, Registered          time.Time
	Gone                       time.Time // zero if it is not gone
}

// Filter selects registered machines. An empty field selects all.
type Filter struct {
	Namespaces     []string
	Machine, Group string
}

// Registered lists the services that machines have registered.
func (s *Store) Registered(ctx context.Context, f Filter) ([]Registered, error) {
	ctx, cancel := context.WithTimeout(ctx, store.QueryTimeout)
	defer cancel()
	rows, err := s.db.Pool().Query(ctx, sql.Registered, f.Namespaces, store.Storable(f.Machine), store.Storable(f.Group))
	if err != nil {
		return nil, store.Explain("reading which machines are registered", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (m Registered, err error) {
		err = row.Scan(&m.Namespace, &m.Machine, &m.Group, &m.State, &m.Entry, &m.Refused, &m.Address, &m.Network, &m.Locality, &m.Health, &m.Detail,
			&m.ServiceAccount, &m.Enrolment, &m.Labels, &m.Ports, &m.Weight, &m.Discovery, &m.Server, &m.Since, &m.Registered, &m.Gone)
		return m, err
	})
	return list, store.Explain("reading which machines are registered", err)
}

// Remove removes a lost machine, or by force a connected one, in the name of by: one of its
// services, or all if group is empty. It returns how many services were removed.
func (s *Store) Remove(ctx context.Context, namespace, machine, group string, force bool, by string) (removed int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, store.QueryTimeout)
	defer cancel()
	err = store.InTheNameOf(ctx, s.db.Pool(), by, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, sql.Remove, store.Storable(namespace), store.Storable(machine), store.Storable(group), force).Scan(&removed)
	})
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch pg.Code {
		case "P0002":
			return 0, fmt.Errorf("%w: %s (%s)", store.ErrNotFound, pg.Message, pg.Hint)
		case "55006":
			return 0, fmt.Errorf("%w: %s (%s)", ErrConnected, pg.Message, pg.Hint)
		}
	}
	return removed, store.ExplainInput("taking out a machine", err)
}
