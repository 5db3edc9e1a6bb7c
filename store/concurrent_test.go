package store_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/store"
)

// state is what a follower that keeps everything knows.
type state map[kinds.Key]*store.Resource

// apply changes the state by a batch, which must fit it.
func (s state) apply(t *testing.T, b store.Batch) {
	t.Helper()
	for _, c := range b.Changes {
		require.Empty(t, cmp.Diff(s[c.Key], c.Before), "revision %d starts from what was there", b.Revision)
		if c.After == nil {
			delete(s, c.Key)
		} else {
			s[c.Key] = c.After
		}
	}
}

// tables is what the tables say, and as of which revision.
func tables(t *testing.T, s *store.Store) (state, store.Revision) {
	t.Helper()
	all := state{}
	at, err := s.Snapshot(t.Context(), func(r *store.Resource) error {
		all[r.Key] = r
		return nil
	})
	require.NoError(t, err)
	return all, at.Revision
}

// writer runs transactions of every kind: several statements, savepoints, rollbacks, pauses while it holds rows.
type writer struct {
	conn *pgx.Conn
	dice *rand.Rand
}

func (w writer) transaction(ctx context.Context) error {
	if _, err := w.conn.Exec(ctx, "BEGIN"); err != nil {
		return err
	}
	for range 1 + w.dice.IntN(3) {
		if err := w.statement(ctx); err != nil {
			return err
		}
	}
	end := "COMMIT"
	if w.dice.IntN(5) == 0 {
		end = "ROLLBACK"
	}
	_, err := w.conn.Exec(ctx, end)
	return err
}

func (w writer) statement(ctx context.Context) error {
	name := fmt.Sprintf("vs-%d", w.dice.IntN(12))
	upsert := fmt.Sprintf(`INSERT INTO mesh.resources (kind, name, spec) VALUES ('VirtualService', '%s', '{"hosts": ["h%d"]}')
		ON CONFLICT (kind, api_group, namespace, name) DO UPDATE SET spec = EXCLUDED.spec`, name, w.dice.IntN(3))
	remove := fmt.Sprintf("DELETE FROM mesh.resources WHERE name = '%s'", name)
	sql := []string{
		upsert, upsert, upsert, remove, "SELECT pg_sleep(0.003)",
		"SAVEPOINT s; " + upsert + "; ROLLBACK TO s", "SAVEPOINT s; " + remove + "; RELEASE s",
		upsert + "; SET CONSTRAINTS ALL IMMEDIATE", "SET CONSTRAINTS ALL IMMEDIATE; " + remove,
		fmt.Sprintf(`UPDATE mesh.resources SET labels = '{"n": "%d"}' WHERE name = '%s'`, w.dice.IntN(3), name),
	}[w.dice.IntN(10)]
	_, err := w.conn.Exec(ctx, sql)
	return err
}

// run makes the given number of transactions. One that ran into another in a circle is given up, as Postgres says.
func (w writer) run(ctx context.Context, transactions int) error {
	for range transactions {
		if err := w.transaction(ctx); err != nil {
			if _, again := w.conn.Exec(ctx, "ROLLBACK"); again != nil {
				return again
			}
		}
	}
	return nil
}

func TestConcurrentWritersAndAFollower(t *testing.T) {
	t.Parallel()
	const writers, transactions = 6, 60
	s, url := open(t)
	batches := follow(t, s, 0)

	var group errgroup.Group
	for i := range writers {
		w := writer{connect(t, url).conn, rand.New(rand.NewPCG(1, uint64(i)))}
		group.Go(func() error { return w.run(context.Background(), transactions) })
	}
	written := make(chan error, 1)
	go func() { written <- group.Wait() }()

	seen, at := state{}, store.Revision(0)
	take := func(b store.Batch) {
		require.Equal(t, at+1, b.Revision, "every revision, once, in order")
		require.NotEmpty(t, b.Changes)
		seen.apply(t, b)
		at = b.Revision
	}
	for writing := true; writing; {
		select {
		case b := <-batches:
			take(b)
		case err := <-written:
			require.NoError(t, err)
			writing = false
		}
	}
	want, last := tables(t, s)
	for at < last {
		take(<-batches)
	}
	require.Greater(t, last, store.Revision(writers*transactions/4))
	require.Empty(t, cmp.Diff(want, seen))
	require.Equal(t, last, value[int64](connect(t, url), "SELECT count(*) FROM mesh.revisions"), "no gaps")
}
