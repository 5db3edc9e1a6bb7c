package resources

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/arguments"
	"github.com/pgmesh/pgmesh/mcp-client/cli/connect"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
)

// getWatch prints resources, and then those that change, as kubectl does: each as it is by then. What is on
// its way to proxies it prints again as it comes further.
type getWatch struct {
	*watcher
	getting

	mu       sync.Mutex // one prints at a time
	first    bool
	statuses *followed
}

func (p program) getAndWatch(ctx context.Context, g getting) error {
	ctx, cancel := context.WithCancel(ctx)
	p.Single = true
	p.GoOn()
	w := &getWatch{
		watcher: &watcher{program: p, query: g.query, known: map[kinds.Key]*kinds.Resource{}}, getting: g,
		first: true, statuses: &followed{program: p, unsettled: map[kinds.Key]*unsettled{}},
	}
	var following sync.WaitGroup
	following.Go(func() { w.followStatuses(ctx) })
	defer following.Wait()
	defer cancel()
	return p.Server.Follow(ctx, arguments.KindsOf(g.query), w.events(), func(b kinds.Batch) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.first {
			w.first = false
			return w.printFirst(ctx, b)
		}
		return w.printChanged(ctx, b)
	})
}

// followStatuses prints again what has come further, until the context ends.
func (w *getWatch) followStatuses(ctx context.Context) {
	ticks := time.NewTicker(askAgain)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			w.mu.Lock()
			if further, statuses := w.statuses.further(ctx); len(further) > 0 {
				_ = w.printRows(further, statuses) // what cannot be written, the next batch fails of
			}
			w.mu.Unlock()
		}
	}
}

func (w *getWatch) printFirst(ctx context.Context, b kinds.Batch) error {
	read := &connect.State{}
	for _, c := range b.Changes {
		if c.Resource != nil {
			read.Resources = append(read.Resources, c.Resource)
		}
	}
	read.Sort()
	w.changes(b.Changes) // which are known from now on
	chosen, err := w.of(read.Resources)
	if err != nil {
		return err
	}
	p := w.program
	defer p.TellUnknownNamespace(ctx, w.getting.query, w.labels, chosen)
	return p.PrintFound(w.getting.query, w.labels, chosen, func(found []*kinds.Resource) output.Statuses { return w.statuses.begin(ctx, found, b.Revision) })
}

// printChanged prints what a batch changed: what is chosen, and what is gone of it.
func (w *getWatch) printChanged(ctx context.Context, b kinds.Batch) error {
	var changed []*kinds.Resource
	for _, c := range w.changes(b.Changes) {
		of := c.after
		if of == nil {
			of = c.before
		}
		selected, err := w.selects(of)
		if err != nil {
			return err
		}
		if !selected || !w.labels.Matches(of.Labels) {
			continue
		}
		if c.after != nil {
			changed = append(changed, c.after)
			continue
		}
		w.statuses.forget(c.key)
		if err := w.printDeleted(c.key); err != nil {
			return err
		}
	}
	if len(changed) == 0 {
		return nil
	}
	return w.printRows(changed, w.statuses.of(ctx, changed, b.Revision))
}

// printDeleted says that a resource is gone: beside the output if that is for programs, which expect resources
// there.
func (w *getWatch) printDeleted(key kinds.Key) error {
	p, line := w.program, words.Reference(key)+" deleted\n"
	if p.Output.IsTable() || p.Output.Format == output.Name {
		return p.Print(line)
	}
	_, err := io.WriteString(p.Err, line)
	return err
}

// printRows prints resources as they are now.
func (w *getWatch) printRows(changed []*kinds.Resource, statuses output.Statuses) error {
	return w.program.PrintResources(changed, true, statuses)
}
