package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ErrConnected says that a machine is connected, and therefore is not removed.
var ErrConnected = errors.New("it is connected")

// RegisteredMachine is one service of one machine.
type RegisteredMachine struct {
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

// RegisteredFilter selects registered machines. An empty field selects all.
type RegisteredFilter struct {
	Namespaces     []string
	Machine, Group string
}

// RegisteredMachines lists the services that machines have registered.
func (s *Store) RegisteredMachines(ctx context.Context, f RegisteredFilter) ([]RegisteredMachine, error) {
	ctx, cancel := context.WithTimeout(ctx, QueryTimeout)
	defer cancel()
	rows, err := s.pool.Query(ctx, `SELECT namespace, machine, workload_group, state, coalesce(entry, ''), coalesce(refused, ''), address, network, locality, health, detail,
		service_account, enrolment, labels, ports, weight, discovery, server, since, registered_at, coalesce(gone_at, '0001-01-01Z')
		FROM mesh.registered_machines WHERE ($1::text[] IS NULL OR namespace = ANY ($1)) AND ($2 = '' OR machine = $2) AND ($3 = '' OR workload_group = $3)
		ORDER BY namespace, machine, workload_group`, f.Namespaces, Storable(f.Machine), Storable(f.Group))
	if err != nil {
		return nil, Explain("reading which machines are registered", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (m RegisteredMachine, err error) {
		err = row.Scan(&m.Namespace, &m.Machine, &m.Group, &m.State, &m.Entry, &m.Refused, &m.Address, &m.Network, &m.Locality, &m.Health, &m.Detail,
			&m.ServiceAccount, &m.Enrolment, &m.Labels, &m.Ports, &m.Weight, &m.Discovery, &m.Server, &m.Since, &m.Registered, &m.Gone)
		return m, err
	})
	return list, Explain("reading which machines are registered", err)
}

// RemoveMachine removes a lost machine, or by force a connected one, in the name of by: one of its
// services, or all if group is empty. It returns how many services were removed.
func (s *Store) RemoveMachine(ctx context.Context, namespace, machine, group string, force bool, by string) (removed int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, QueryTimeout)
	defer cancel()
	err = InTheNameOf(ctx, s.pool, by, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, "SELECT mesh.remove_machine($1, $2, nullif($3, ''), $4)", Storable(namespace), Storable(machine), Storable(group), force).Scan(&removed)
	})
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch pg.Code {
		case "P0002":
			return 0, fmt.Errorf("%w: %s (%s)", ErrNotFound, pg.Message, pg.Hint)
		case "55006":
			return 0, fmt.Errorf("%w: %s (%s)", ErrConnected, pg.Message, pg.Hint)
		}
	}
	return removed, ExplainInput("taking out a machine", err)
}
