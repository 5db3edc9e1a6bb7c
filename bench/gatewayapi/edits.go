package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/wait"
)

// edits is how a route fares that is edited under load.
type edits struct {
	edits, requests int
	failures        map[string]int
	by              map[string]int // answers by who gave them
}

const (
	requestEvery = 2 * time.Millisecond // 500 a second
	editEvery    = 200 * time.Millisecond
)

// edit moves a route from one backend to the other and back, with a filter and without, while requests
// come at a steady rate, whether earlier ones are answered or not.
func (o *options) edit(ctx context.Context, m *mesh) (e edits, err error) {
	e = edits{edits: o.edits, failures: map[string]int{}, by: map[string]int{}}
	r := route{name: "edited"}
	if err := m.write(ctx, marked(r, backend, "start")); err != nil {
		return e, err
	}
	if err := m.until(ctx, r, "/", "start"); err != nil {
		return e, err
	}
	loading, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.load(ctx, loading, m, r)
	}()
	for n := range o.edits {
		if !wait.For(ctx, editEvery) {
			return e, ctx.Err()
		}
		edited := marked(r, backends[(n+1)%len(backends)], fmt.Sprint(n))
		if n%len(backends) == 0 {
			delete(edited.spec["rules"].([]object)[0], "filters")
		}
		if err := m.write(ctx, edited); err != nil {
			return e, err
		}
	}
	wait.For(ctx, editEvery)
	stop()
	<-done
	return e, ctx.Err()
}

// load sends requests until it is stopped, and returns when all are answered.
func (e *edits) load(ctx, until context.Context, m *mesh, r route) {
	var all sync.WaitGroup
	var lock sync.Mutex
	tick := time.NewTicker(requestEvery)
	defer tick.Stop()
	for until.Err() == nil {
		select {
		case <-until.Done():
		case <-tick.C:
			all.Go(func() {
				status, who, _, err := m.ask(ctx, r, "/")
				lock.Lock()
				defer lock.Unlock()
				e.count(status, who, err)
			})
		}
	}
	all.Wait()
}

func (e *edits) count(status int, who string, err error) {
	e.requests++
	switch {
	case err != nil:
		e.failures[err.Error()]++
	case status != http.StatusOK:
		e.failures[fmt.Sprint(status)]++
	default:
		e.by[who]++
	}
}

func (e *edits) report(out io.Writer, name string, a aims) {
	failed := 0
	for _, n := range e.failures {
		failed += n
	}
	fmt.Fprintf(out, "%s: %d edits of one route while %d requests come: %d fail %v, answered by %v\n", name, e.edits, e.requests, failed, e.failures, e.by)
	a.verdict(out, "no request fails, and both backends answer", failed == 0 && len(e.by) == len(backends))
}
