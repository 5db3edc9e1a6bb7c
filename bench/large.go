package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/bench/timing"
	"github.com/pgmesh/pgmesh/internal/testbench/usage"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/feed"
)

// benchLarge loads a large mesh in one transaction, reads it, and compares a change in it with a
// change in a small one.
func benchLarge(ctx context.Context, o options) error {
	server, err := startDatabase(ctx, nil)
	if err != nil {
		return err
	}
	defer server.Stop()
	small, err := newDatabase(ctx, server, "small")
	if err != nil {
		return err
	}
	copied, err := newDatabase(ctx, server, "copied")
	if err != nil {
		return err
	}
	rows := meshRows(o.resources)
	start := usage.Now()
	fmt.Fprintf(os.Stdout, "\n%d resources of 5 kinds in one transaction\n\n", len(rows))
	for _, way := range []struct {
		name, url string
		write     func(pgx.Tx) error
	}{
		{"INSERT, 1000 a statement", server.URL(), insertRows(ctx, rows)},
		{"COPY", copied, copyRows(ctx, rows)},
	} {
		took, err := load(ctx, way.url, way.write)
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stdout, "%-28s %6.1f s, of which COMMIT %4.1f s (aim: 60 s, %s)\n", way.name, took.all.Seconds(), took.commit.Seconds(), met(took.all <= time.Minute))
	}
	if _, err := load(ctx, small, insertRows(ctx, rows[:100])); err != nil {
		return err
	}
	for _, what := range []struct{ name, aim string }{{"snapshot", "3 s, 200 MB"}, {"follow", "none"}} {
		r, err := readApart(ctx, what.name, server.URL())
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stdout, "%-28s %6.1f s, process at most %d MB (aim: %s)\n", what.name+" by the Go API", r.Took.Seconds(), r.PeakRSS>>20, what.aim)
	}
	meanwhile(start)
	for _, statement := range []string{"VACUUM ANALYZE", "CHECKPOINT"} { // finish the work that the load left, which is not part of the comparison
		if err := execute(ctx, server.URL(), statement); err != nil {
			return err
		}
	}
	return compareSizes(ctx, o, small, server.URL())
}

// reading is the measurement of a process that reads.
type reading struct {
	Took    time.Duration
	PeakRSS int64
}

// readApart reads in another process, to measure the memory of reading alone.
func readApart(ctx context.Context, what, url string) (r reading, err error) {
	self, err := os.Executable()
	if err != nil {
		return r, err
	}
	cmd := exec.CommandContext(ctx, self, what, url)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(out, &r)
}

// readerCommands are the commands of readApart: they read everything and keep nothing.
func readerCommands() []*cobra.Command {
	reader := func(name string, read func(context.Context, *feed.Feed) error) *cobra.Command {
		return &cobra.Command{Use: name, Hidden: true, Args: cobra.ExactArgs(1), RunE: func(cmd *cobra.Command, args []string) error {
			s, err := store.Open(cmd.Context(), args[0], store.Options{})
			if err != nil {
				return err
			}
			defer s.Close()
			f, err := feed.New(s, feed.Options{})
			if err != nil {
				return err
			}
			start := time.Now()
			if err := read(cmd.Context(), f); err != nil {
				return err
			}
			return json.NewEncoder(os.Stdout).Encode(reading{time.Since(start), peakRSS()})
		}}
	}
	return []*cobra.Command{
		reader("snapshot", func(ctx context.Context, f *feed.Feed) error {
			_, err := f.Snapshot(ctx, func(*store.Resource) error { return nil })
			return err
		}),
		reader("follow", func(ctx context.Context, f *feed.Feed) error {
			ctx, enough := context.WithCancel(ctx)
			defer enough()
			err := f.Follow(ctx, feed.At(0), func(feed.Batch) error { enough(); return nil })
			if ctx.Err() != nil {
				return nil
			}
			return err
		}),
	}
}

// peakRSS returns the peak memory of this process, 0 without /proc.
func peakRSS() int64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kB, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kB << 10
		}
	}
	return 0
}

// compareSizes measures one change from COMMIT to a follower, alternating between a small mesh and
// a large one.
func compareSizes(ctx context.Context, o options, small, large string) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	fewer, err := newSeen(ctx, small)
	if err != nil {
		return err
	}
	more, err := newSeen(ctx, large)
	if err != nil {
		return err
	}
	var few, many []time.Duration
	start := usage.Now()
	for i := range o.warmup + 2*o.changes {
		for _, m := range []struct {
			seen *seen
			all  *[]time.Duration
		}{{fewer, &few}, {more, &many}} {
			took, err := m.seen.change(ctx, i)
			if err != nil {
				return err
			}
			if i >= o.warmup {
				*m.all = append(*m.all, took)
			}
		}
	}
	slices.Sort(few)
	slices.Sort(many)
	t := newTimesTable(fmt.Sprintf("From the UPDATE of one resource to a follower that has it, %d of each in turns", len(few)))
	t.line("among 100 resources", few)
	t.line(fmt.Sprintf("among %d", o.resources), many)
	t.Flush()
	ratio := float64(timing.Percentile(many, 50)) / float64(timing.Percentile(few, 50))
	fmt.Fprintf(os.Stdout, "\np50 is %.2f times that among few (aim: within 1.3, %s)\n", ratio, met(ratio < 1.3))
	meanwhile(start)
	return nil
}

// seen is a mesh with a writer and a follower.
type seen struct {
	conn    *pgx.Conn
	batches chan feed.Batch
}

func newSeen(ctx context.Context, url string) (*seen, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	s, err := store.Open(ctx, url, store.Options{})
	if err != nil {
		return nil, err
	}
	f, err := feed.New(s, feed.Options{})
	if err != nil {
		return nil, err
	}
	at, err := f.Snapshot(ctx, func(*store.Resource) error { return nil })
	if err != nil {
		return nil, err
	}
	m := &seen{conn, make(chan feed.Batch, 1)}
	go func() {
		defer s.Close()
		_ = f.Follow(ctx, at, func(b feed.Batch) error { m.batches <- b; return nil })
	}()
	return m, nil
}

// changeOne takes a new timeout and the name of a virtual service.
const changeOne = `UPDATE mesh.resources SET spec = jsonb_set(spec, '{http,1,timeout}', to_jsonb($1::text))
	WHERE kind = 'VirtualService' AND api_group = 'networking.istio.io' AND namespace = 'default' AND name = $2`

func (m *seen) change(ctx context.Context, number int) (time.Duration, error) {
	timing.Settle()
	start := time.Now()
	_, err := m.conn.Exec(ctx, changeOne, fmt.Sprintf("%ds", 10+number), fmt.Sprint("service-", number%20))
	if err != nil {
		return 0, err
	}
	select {
	case <-m.batches:
		return time.Since(start), nil
	case <-time.After(changeTimeout):
		return 0, fmt.Errorf("the follower has not seen change %d", number)
	}
}
