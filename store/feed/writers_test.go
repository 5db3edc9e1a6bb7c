package feed_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
)

// writer runs transactions of every kind on a connection that may be killed under it.
type writer struct {
	name  string
	url   string
	dice  *rand.Rand
	clock *atomic.Int64
	conn  *pgx.Conn
	count int
	done  []committed

	observer *observer
}

// committed is a transaction whose COMMIT was answered: it began and ended at these moments of a
// clock that all writers share.
type committed struct {
	message    string
	begun, end int64
}

// run makes the given number of transactions. What fails is given up, as Postgres says.
func (w *writer) run(ctx context.Context, transactions int) error {
	defer func() {
		if w.conn != nil {
			_ = w.conn.Close(context.Background())
		}
	}()
	for range transactions {
		if err := w.connect(ctx); err != nil {
			return err
		}
		w.count++
		c := committed{message: fmt.Sprintf("%s-%d", w.name, w.count), begun: w.clock.Add(1)}
		if err := w.transaction(ctx, c.message); err != nil {
			continue
		}
		c.end = w.clock.Add(1)
		w.done = append(w.done, c)
		w.mischief(ctx)
	}
	return nil
}

// mischief now and then ends the storetest.Session of another writer or of a follower, and now and
// then looks at the tables meanwhile.
func (w *writer) mischief(ctx context.Context) {
	switch w.dice.IntN(25) {
	case 0:
		_ = w.exec(ctx, `SELECT pg_terminate_backend(pid) FROM (
			SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name IN ('writer', 'pgmesh feed')
			ORDER BY random() LIMIT 1) s`)
	case 1:
		w.observer.look(ctx)
	}
}

func (w *writer) connect(ctx context.Context) (err error) {
	if w.conn != nil && !w.conn.IsClosed() {
		if _, err := w.conn.Exec(ctx, "ROLLBACK"); err == nil {
			return nil
		}
		_ = w.conn.Close(ctx)
	}
	config, err := pgx.ParseConfig(w.url)
	if err != nil {
		return err
	}
	config.RuntimeParams["application_name"] = "writer"
	w.conn, err = pgx.ConnectConfig(ctx, config)
	return err
}

var errRolledBack = errors.New("rolled back")

// transaction fails if nothing was committed, or nobody knows.
func (w *writer) transaction(ctx context.Context, message string) error {
	if err := w.exec(ctx, "SET mesh.message = '"+message+"'"); err != nil {
		return err
	}
	switch w.dice.IntN(10) {
	case 0: // no transaction block
		return w.exec(ctx, w.statement())
	case 1: // several statements in one message are one transaction
		return w.exec(ctx, w.statement()+"; "+w.statement())
	case 2:
		return w.copy(ctx)
	}
	isolation := []string{"READ COMMITTED", "READ COMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"}[w.dice.IntN(5)]
	if err := w.exec(ctx, "BEGIN ISOLATION LEVEL "+isolation); err != nil {
		return err
	}
	for range 1 + w.dice.IntN(4) {
		if err := w.exec(ctx, w.step()); err != nil {
			return err
		}
	}
	if w.dice.IntN(6) == 0 {
		return errors.Join(errRolledBack, w.exec(ctx, "ROLLBACK"))
	}
	return w.exec(ctx, "COMMIT")
}

func (w *writer) exec(ctx context.Context, sql string) error {
	_, err := w.conn.Exec(ctx, sql)
	return err
}

// copy loads rows under names of its own.
func (w *writer) copy(ctx context.Context) error {
	var rows [][]any
	for i := range 1 + w.dice.IntN(8) {
		rows = append(rows, []any{"VirtualService", fmt.Sprintf("copied-%s-%d-%d", w.name, w.count, i), storetest.VirtualService("copied")})
	}
	_, err := w.conn.CopyFrom(ctx, pgx.Identifier{"mesh", "resources"}, []string{"kind", "name", "spec"}, pgx.CopyFromRows(rows))
	return err
}

// step is one message of a transaction block.
func (w *writer) step() string {
	s := w.statement
	return []func() string{
		s, s, s, s, s,
		func() string { return "SAVEPOINT s; " + s() + "; ROLLBACK TO s" },
		func() string { return "SAVEPOINT s; " + s() + "; RELEASE s; " + s() },
		func() string { return "SAVEPOINT s; " + s() + "; SAVEPOINT s; " + s() + "; ROLLBACK TO s; " + s() },
		func() string { return "SET CONSTRAINTS ALL IMMEDIATE; " + s() },
		func() string { return s() + "; SET CONSTRAINTS ALL IMMEDIATE" },
		func() string { return "SAVEPOINT s; SET CONSTRAINTS ALL IMMEDIATE; " + s() + "; ROLLBACK TO s" },
		func() string { return fmt.Sprintf("SELECT pg_sleep(%f)", w.dice.Float64()/50) },
	}[w.dice.IntN(12)]()
}

// statement changes a few of the resources that all writers quarrel about.
func (w *writer) statement() string {
	name := func() string { return fmt.Sprintf("vs-%d", w.dice.IntN(20)) }
	spec := func() string {
		return fmt.Sprintf(`{"hosts": ["h%d"], "http": [{"redirect": {"uri": "/"}}]}`, w.dice.IntN(3))
	}
	upsert := func() string {
		return fmt.Sprintf(`INSERT INTO mesh.resources (kind, name, spec) VALUES ('VirtualService', '%s', '%s'), ('VirtualService', '%s-too', '%s')
			ON CONFLICT (kind, api_group, namespace, name) DO UPDATE SET spec = EXCLUDED.spec`, name(), spec(), name(), spec())
	}
	update := func() string {
		return fmt.Sprintf("UPDATE mesh.resources SET spec = '%s' WHERE name = '%s'", spec(), name())
	}
	remove := func() string { return fmt.Sprintf("DELETE FROM mesh.resources WHERE name = '%s'", name()) }
	return []func() string{
		upsert, upsert, upsert, update, update, update, remove, remove,
		func() string {
			return fmt.Sprintf(`UPDATE mesh.resources SET labels = '{"n": "%d"}' WHERE name IN ('%s', '%s')`, w.dice.IntN(3), name(), name())
		},
		func() string {
			return fmt.Sprintf("UPDATE mesh.resources SET name = '%s' WHERE name = '%s'", name(), name())
		},
		func() string { return "DELETE FROM mesh.resources WHERE name LIKE 'copied-%'" },
		func() string { return "UPDATE mesh.resources SET spec = spec WHERE name LIKE 'vs-1%'" },
		func() string {
			return strings.ReplaceAll(`WITH gone AS (DELETE FROM mesh.resources WHERE name = '$' RETURNING *)
				INSERT INTO mesh.resources (kind, name, spec) SELECT kind, name || '-moved', spec FROM gone ON CONFLICT DO NOTHING`, "$", name())
		},
		func() string { return "DO $$ BEGIN " + upsert() + "; " + remove() + "; " + update() + "; END $$" },
	}[w.dice.IntN(14)]()
}
