package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/pgmesh/pgmesh/bench/timing"
	"github.com/pgmesh/pgmesh/internal/testbench/usage"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/feed"
)

// The load of all writers together.
const (
	writers    = 16
	wantedRate = 1000 // transactions a second
	written    = 1000 // resources; each transaction updates one
	aimLag     = 100 * time.Millisecond
)

// benchWriters has writers change resources at a steady rate while a follower is attached.
func benchWriters(ctx context.Context, o options) error {
	server, err := startDatabase(ctx, nil)
	if err != nil {
		return err
	}
	defer server.Stop()
	if _, err := load(ctx, server.URL(), insertRows(ctx, meshRows(5*written))); err != nil {
		return err
	}
	before, err := sizes(ctx, server.URL())
	if err != nil {
		return err
	}
	l := &writing{}
	start, begin := usage.Now(), time.Now()
	followed, err := l.follow(ctx, server.URL(), func() error { return l.write(ctx, server.URL(), o.writing) })
	if err != nil {
		return err
	}
	took := time.Since(begin)
	after, err := sizes(ctx, server.URL())
	if err != nil {
		return err
	}
	rate := float64(l.done) / took.Seconds()
	floor, err := bareRate(ctx, server.URL(), min(o.writing, 10*time.Second))
	if err != nil {
		return err
	}
	t := newTimesTable(fmt.Sprintf("%d writers for %s: %d transactions, %.0f a second (aim: %d, %s); the follower has seen %d", writers, o.writing, l.done, rate,
		wantedRate, met(rate >= 0.99*wantedRate), followed))
	slices.Sort(l.took)
	slices.Sort(l.lag)
	t.line("a transaction, from its due time", l.took)
	t.line("lag of the follower behind COMMIT", l.lag)
	t.Flush()
	fmt.Fprintf(os.Stdout, "\nas many writers of a bare table, with a NOTIFY each, reach %.0f a second on this disk\n", floor)
	fmt.Fprintf(os.Stdout, "lag p99 is %s (aim: under %s, %s); nothing is lost: %s\n\n", millis(timing.Percentile(l.lag, 99)), millis(aimLag),
		met(timing.Percentile(l.lag, 99) < aimLag), met(followed == l.done))
	for i := range after {
		fmt.Fprintf(os.Stdout, "%-26s table %8s -> %8s   indexes %8s -> %8s   rows %d\n", after[i].name, mb(before[i].table), mb(after[i].table),
			mb(before[i].indexes), mb(after[i].indexes), after[i].rows)
	}
	meanwhile(start)
	return nil
}

// bareRate is how many transactions per second as many writers reach on a bare table with the same
// index, without a rate limit. A NOTIFY makes each commit wait until the one before it is on the
// disk, as revision numbers do.
func bareRate(ctx context.Context, url string, lasting time.Duration) (float64, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, `CREATE TABLE bench_bare (LIKE mesh.resources INCLUDING DEFAULTS, PRIMARY KEY (kind, api_group, namespace, name)) WITH (fillfactor = 85);
		INSERT INTO bench_bare SELECT * FROM mesh.resources; ANALYZE bench_bare`); err != nil {
		return 0, err
	}
	var done atomic.Int64
	var group errgroup.Group
	begin := time.Now()
	for w := range writers {
		group.Go(func() error {
			conn, err := pgx.Connect(ctx, url)
			if err != nil {
				return err
			}
			defer conn.Close(ctx)
			for i := w; time.Since(begin) < lasting; i += writers {
				if _, err := conn.Exec(ctx, updateOf("bench_bare", i)+"; NOTIFY bench_bare"); err != nil {
					return err
				}
				done.Add(1)
			}
			return nil
		})
	}
	err = group.Wait()
	return float64(done.Load()) / time.Since(begin).Seconds(), err
}

func updateOf(table string, number int) string {
	return fmt.Sprintf(`UPDATE %s SET spec = jsonb_set(spec, '{http,1,timeout}', '"%ds"')
		WHERE kind = 'VirtualService' AND api_group = 'networking.istio.io' AND namespace = 'default' AND name = 'service-%d'`,
		table, 1+number/written, number*7919%written)
}

// writing is what the writers did, and what the follower saw of it.
type writing struct {
	mu    sync.Mutex
	took  []time.Duration
	lag   []time.Duration
	done  int
	ended map[string]time.Time // by the message of the transaction
	early map[string]time.Time // those that the follower saw before COMMIT returned
}

// write makes transactions at the wanted rate. Each writer has fixed due times, and makes up for
// late ones.
func (l *writing) write(ctx context.Context, url string, lasting time.Duration) error {
	var group errgroup.Group
	begin := time.Now().Add(200 * time.Millisecond)
	for w := range writers {
		group.Go(func() error {
			conn, err := pgx.Connect(ctx, url)
			if err != nil {
				return err
			}
			defer conn.Close(ctx)
			for i := w; ; i += writers {
				due := begin.Add(time.Duration(i) * time.Second / wantedRate)
				if due.Sub(begin) >= lasting || time.Since(begin) > 2*lasting {
					return nil
				}
				time.Sleep(time.Until(due)) // the load must not depend on the speed of the store
				if err := l.transaction(ctx, conn, i, due); err != nil {
					return err
				}
			}
		})
	}
	return group.Wait()
}

func (l *writing) transaction(ctx context.Context, conn *pgx.Conn, number int, due time.Time) error {
	message := fmt.Sprint("change ", number)
	_, err := conn.Exec(ctx, "SET LOCAL mesh.message = '"+message+"'; "+updateOf("mesh.resources", number))
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done++
	l.took = append(l.took, now.Sub(due))
	if seen, ok := l.early[message]; ok {
		l.lag = append(l.lag, max(0, seen.Sub(now)))
	} else {
		l.ended[message] = now
	}
	return err
}

// follow attaches a follower while the writers write, and returns how many of their transactions it
// saw.
func (l *writing) follow(ctx context.Context, url string, write func() error) (seen int, err error) {
	l.ended, l.early = map[string]time.Time{}, map[string]time.Time{}
	s, err := store.Open(ctx, url, store.Options{})
	if err != nil {
		return 0, err
	}
	defer s.Close()
	f, err := feed.New(s, feed.Options{})
	if err != nil {
		return 0, err
	}
	at, err := f.Snapshot(ctx, func(*store.Resource) error { return nil })
	if err != nil {
		return 0, err
	}
	ctx, stop := context.WithCancel(ctx)
	news, ended := make(chan feed.Batch, 100_000), make(chan error, 1)
	go func() {
		ended <- f.Follow(ctx, at, func(b feed.Batch) error {
			l.saw(b)
			news <- b
			return nil
		})
	}()
	err = write()
	for timeout := time.After(changeTimeout); err == nil && seen < l.done; seen++ {
		select {
		case <-news:
		case <-timeout:
			err = fmt.Errorf("the follower has seen %d of %d transactions", seen, l.done)
		}
	}
	stop()
	<-ended
	return seen, err
}

func (l *writing) saw(b feed.Batch) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if committed, ok := l.ended[b.Message]; ok {
		l.lag = append(l.lag, now.Sub(committed))
		delete(l.ended, b.Message)
		return
	}
	l.early[b.Message] = now
}

// size is the size of one table.
type size struct {
	name           string
	table, indexes int64
	rows           int64
}

func sizes(ctx context.Context, url string) ([]size, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	var all []size
	for _, name := range []string{"mesh.resources", "mesh_internal.transactions", "mesh_internal.changes"} {
		s := size{name: name}
		err := conn.QueryRow(ctx, fmt.Sprintf("SELECT pg_table_size('%[1]s'), pg_indexes_size('%[1]s'), (SELECT count(*) FROM %[1]s)", name)).
			Scan(&s.table, &s.indexes, &s.rows)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

func mb(bytes int64) string { return fmt.Sprintf("%.1f MB", float64(bytes)/(1<<20)) }
