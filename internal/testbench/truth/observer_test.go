package truth_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/internal/kit/wait"
)

// observer reads what the database says of proxies, all the time.
type observer struct {
	mesh *mesh

	mu        sync.Mutex
	chronicle chronicle
	reads     int
	lies      []string
}

func newObserver(m *mesh) *observer {
	return &observer{mesh: m, chronicle: chronicle{ports: map[string][]since{}}}
}

// row is a row of mesh.proxies.
type row struct {
	Namespace, Proxy, Discovery, Server, State string
	Connected                                  time.Time
	Sent, Runs                                 int64
	Refused                                    int
	Gone                                       bool
}

// reading is what the database said, all at one moment, and what was so right after.
type reading struct {
	newest int64
	rows   map[string]row // by id of the member
	states []state
}

// readInterval lies between two readings.
const readInterval = 10 * time.Millisecond

// observe reads until the context ends. While the database is away there is nothing to read.
func (o *observer) observe(ctx context.Context) {
	for wait.For(ctx, readInterval) {
		r, err := o.read(ctx)
		if err != nil {
			continue
		}
		for _, claim := range claims {
			for _, lie := range claim(o, r) {
				o.tell(lie)
			}
		}
	}
}

// mostLies is how many are told of.
const mostLies = 10

func (o *observer) tell(lie string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.lies) < mostLies {
		o.lies = append(o.lies, lie)
	}
}

// read reads in one snapshot of the database.
func (o *observer) read(ctx context.Context) (r *reading, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	o.mu.Lock()
	defer o.mu.Unlock()
	r = &reading{rows: map[string]row{}}
	err = pgx.BeginTxFunc(ctx, o.mesh.db, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if err := r.readProxies(ctx, tx); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, "SELECT mesh.newest_revision()").Scan(&r.newest); err != nil {
			return err
		}
		return o.readMarks(ctx, tx)
	})
	for _, m := range o.mesh.members {
		r.states = append(r.states, m.now())
	}
	if err == nil {
		o.reads++
	}
	return r, err
}

func (r *reading) readProxies(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, `SELECT namespace, proxy, discovery, server, state, connected, coalesce(sent, 0), coalesce(runs, 0), refused, gone IS NOT NULL FROM mesh.proxies`)
	if err != nil {
		return err
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
	for _, p := range all {
		r.rows[p.Proxy] = p
	}
	return err
}

// readMarks reads which marks the revisions left that are new.
func (o *observer) readMarks(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, `SELECT name, revision, (after #>> '{spec,ports,0,number}')::int FROM mesh.history WHERE kind = 'ServiceEntry' AND revision > $1 ORDER BY revision`, o.chronicle.revision)
	if err != nil {
		return err
	}
	type change struct {
		Name     string
		Revision int64
		Port     int
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[change])
	if err != nil {
		return err
	}
	for _, c := range all {
		o.chronicle.note(c.Name, c.Revision, c.Port)
	}
	return nil
}

// told returns the lies so far, and how often was read.
func (o *observer) told() (lies []string, reads int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lies, o.reads
}

func (p row) String() string {
	return fmt.Sprintf("{%s at %s by %s since %s: sent %d, runs %d, refuses %d}", p.State, p.Discovery, p.Server, clock(p.Connected), p.Sent, p.Runs, p.Refused)
}
