package resources

import (
	"context"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/arguments"
	"github.com/pgmesh/pgmesh/mcp-client/cli/connect"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
)

// getAndWatch prints resources, and then those that change, as kubectl does: each as it is by then.
func (p program) getAndWatch(ctx context.Context, g getting) error {
	w := &watcher{program: p, query: g.query, known: map[kinds.Key]*kinds.Resource{}}
	first := true
	return p.Server.Follow(ctx, arguments.KindsOf(g.query), w.events(), func(b kinds.Batch) error {
		if first {
			first = false
			return p.printFirst(w, g, b)
		}
		return p.printChanged(w, g, b)
	})
}

func (p program) printFirst(w *watcher, g getting, b kinds.Batch) error {
	read := &connect.State{}
	for _, c := range b.Changes {
		if c.Resource != nil {
			read.Resources = append(read.Resources, c.Resource)
		}
	}
	read.Sort()
	w.changes(b.Changes) // which are known from now on
	chosen, err := g.of(read.Resources)
	if err != nil {
		return err
	}
	return p.PrintFound(g.query, g.labels, chosen, nil)
}

// printChanged prints what a batch changed: what is chosen, and what is gone of it.
func (p program) printChanged(w *watcher, g getting, b kinds.Batch) error {
	var changed []*kinds.Resource
	for _, c := range w.changes(b.Changes) {
		of := c.after
		if of == nil {
			of = c.before
		}
		selected, err := g.selects(of)
		if err != nil {
			return err
		}
		if !selected || !g.labels.Matches(of.Labels) {
			continue
		}
		if c.after != nil {
			changed = append(changed, c.after)
			continue
		}
		if p.Output.IsTable() || p.Output.Format == output.Name {
			if err := p.Print(words.Reference(c.key) + " deleted\n"); err != nil {
				return err
			}
		}
	}
	if len(changed) == 0 {
		return nil
	}
	printer := *p.Printer
	printer.NoHeaders = true
	return printer.PrintResources(changed, true, nil)
}
