package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/wait"
)

// batch is how long it takes until the status is right of many routes that are written at once.
type batch struct {
	routes                    int
	wrote, attached, statuses time.Duration // from the beginning
}

// lookEvery lies at least between two looks at statuses. The pause is as long as the look took: to
// look costs the origin something, and whoever does so all the time measures that.
const lookEvery = 10 * time.Millisecond

// statusTimeout is when a status counts as wrong.
const statusTimeout = 2 * time.Minute

func (o *options) batch(ctx context.Context, m *mesh) (b batch, err error) {
	all := make([]route, o.batchRoutes)
	for i := range all {
		all[i] = plain(i, "batch")
	}
	b.routes = len(all) + 1 // with the first one
	begun := time.Now()
	if err := m.writeAll(ctx, all); err != nil {
		return b, err
	}
	b.wrote = time.Since(begun)
	if b.attached, err = b.until(ctx, begun, m.origin.attached); err != nil {
		return b, fmt.Errorf("routes attached to the Gateway: %w", err)
	}
	if b.statuses, err = b.until(ctx, begun, m.stated); err != nil {
		return b, fmt.Errorf("statuses of routes: %w", err)
	}
	return b, nil
}

// until waits until all routes are counted, and returns how long after the beginning that was so.
func (b batch) until(ctx context.Context, begun time.Time, look func(context.Context) (counted, error)) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	for {
		looked := time.Now()
		n, err := look(ctx)
		if err != nil || n.routes == b.routes {
			return n.at.Sub(begun), err
		}
		if !wait.For(ctx, max(lookEvery, time.Since(looked))) {
			return 0, fmt.Errorf("%d of %d: %w", n.routes, b.routes, ctx.Err())
		}
	}
}

func (b batch) report(out io.Writer, name string, a aims) {
	fmt.Fprintf(out, "%s: %d routes are written within %s; from then on, the Gateway's status counts them all after %s, and the status of each is right after %s\n",
		name, b.routes-1, rounded(b.wrote), rounded(b.attached-b.wrote), rounded(b.statuses-b.wrote))
	a.meets(out, "the Gateway's, from when all are written, as gateway-api-bench has it,", b.attached-b.wrote, a.status)
	a.meets(out, "that of each, from then on", b.statuses-b.wrote, a.status)
}

func rounded(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
