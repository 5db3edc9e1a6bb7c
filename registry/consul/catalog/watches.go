package catalog

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pgmesh/pgmesh/internal/kit/wait"
	"github.com/pgmesh/pgmesh/registry/consul/client"
)

// watches are queries that each wait for one service: those that changed last, for what has changed
// changes again.
type watches struct {
	*session

	group   *errgroup.Group
	most    int
	running map[string]*watch
}

type watch struct {
	cancel context.CancelFunc
}

// Agents follow what is watched, which is work for them to begin. So watches begin a few at a time.
const (
	atOnce  = 10
	between = 5 * time.Millisecond
)

// fill begins as many watches as there may be.
func (w *watches) fill() {
	all := w.byChange()
	all = all[:min(len(all), w.most)]
	w.group.Go(func() error {
		for some := range slices.Chunk(all, atOnce) {
			if err := w.do(func() error { w.beginAll(some); return nil }); err != nil {
				return err
			}
			if !wait.For(w.ctx, between) {
				return w.ctx.Err()
			}
		}
		return nil
	})
}

func (w *watches) beginAll(some []reading) {
	for _, r := range some {
		w.begin(r.name, w.index(r.name))
	}
}

// byChange are the services that are not watched, the last changed first.
func (w *watches) byChange() []reading {
	all := make([]reading, 0, len(w.services))
	for name := range w.names {
		if w.running[name] == nil {
			all = append(all, reading{name: name, known: w.index(name), later: true})
		}
	}
	slices.SortFunc(all, func(a, b reading) int { return cmp.Compare(b.known, a.known) })
	return all
}

// begin watches a service, in place of the one whose last change is the longest ago.
func (w *watches) begin(name string, index uint64) {
	if w.running[name] != nil || w.most == 0 || index == 0 {
		return
	}
	if len(w.running) >= w.most {
		oldest := w.oldest()
		if w.index(oldest) >= index {
			return
		}
		w.yield(oldest)
	}
	ctx, cancel := context.WithCancel(w.ctx)
	mine := &watch{cancel}
	w.running[name] = mine
	w.group.Go(func() error {
		defer cancel()
		return w.follow(ctx, name, index, mine)
	})
}

// index is when a service changed last, 0 if it was not read.
func (s *session) index(name string) uint64 {
	if k := s.services[name]; k != nil {
		return k.index
	}
	return 0
}

func (w *watches) oldest() string {
	oldest, least := "", uint64(0)
	for name := range w.running {
		if index := w.index(name); oldest == "" || index < least {
			oldest, least = name, index
		}
	}
	return oldest
}

func (w *watches) end(name string) {
	if running := w.running[name]; running != nil {
		delete(w.running, name)
		running.cancel()
	}
}

// yield ends a watch of what stays. An answer may have been on its way, so it is read once more.
func (w *watches) yield(name string) {
	w.end(name)
	w.queue.readNow(name)
}

// follow tells own each answer.
func (w *watches) follow(ctx context.Context, name string, index uint64, mine *watch) error {
	q := client.Query{After: index, Wait: long}
	err := w.poll(ctx, q, func(q client.Query) (client.Meta, error) {
		q.Known = q.After
		a, err := w.ask(ctx, q, name)
		if err != nil || a.Unchanged {
			return a.Meta, err
		}
		return a.Meta, w.do(func() error { w.took(name, a, nil); return nil })
	})
	if ended := ctx.Err() != nil && w.ctx.Err() == nil; ended {
		err = nil
	}
	if refusal, is := errors.AsType[*client.Refusal](err); is && refusal.Crowded() {
		return w.do(func() error { w.lessen(name, mine, err); return nil })
	}
	return err
}

// lessen ends a watch that had no connection, and others so that there are not too many again.
func (w *watches) lessen(name string, mine *watch, err error) {
	if w.running[name] != mine {
		return
	}
	w.yield(name)
	w.Watches = min(w.Watches, len(w.running))
	w.crowded(err)
	w.most = w.Watches
	for len(w.running) > w.most {
		w.yield(w.oldest())
	}
}
