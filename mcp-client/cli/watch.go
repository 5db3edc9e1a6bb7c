package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/mcp"
)

func (p *Program) watchCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "watch [KIND...]",
		Short: "Print what changes, as it changes",
		Long: `Print resources as they stand and then every change, a batch at a time, until interrupted.

A batch from mcp-server is one revision, or several that were committed while an earlier one was on its way; it is never part of
one. Servers of others number nothing. The times are this machine's.`,
		Example: `  mcp-client watch
  mcp-client watch vs dr -A
  mcp-client watch -o json | jq .revision`,
		ValidArgsFunction: p.completeKinds,
		RunE: func(cmd *cobra.Command, args []string) error {
			ks := kinds.All()
			if len(args) > 0 {
				var err error
				if ks, err = parseKinds(strings.Join(args, ",")); err != nil {
					return &usageError{cmd, err}
				}
			}
			return p.watch(cmd.Context(), ks)
		},
	}
}

func (p *Program) watch(ctx context.Context, ks []*kinds.Kind) error {
	w := &watching{program: p, known: map[kinds.Key]bool{}}
	return p.server.follow(ctx, ks, &link{
		up: func() { w.say("connected to " + p.server.address + " again") },
		down: func(err error) {
			w.say("lost the server at " + p.server.address + ": " + cause(status.Convert(err).Message()) + "; trying again")
		},
	}, w.batch)
}

// watching is what a watch remembers.
type watching struct {
	program *Program
	known   map[kinds.Key]bool // what there is
	started bool
	said    string
}

// say tells about the connection; the same thing over and over, once.
func (w *watching) say(text string) {
	if text != w.said {
		fmt.Fprintln(w.program.Err, text)
		w.said = text
	}
}

// change is one change as it is printed.
type change struct {
	Action   string          `json:"action"` // "current" in the first batch, then "created", "changed", "deleted"
	Group    string          `json:"group"`
	Kind     string          `json:"kind"`
	Space    string          `json:"namespace,omitempty"`
	Name     string          `json:"name"`
	Resource json.RawMessage `json:"resource,omitempty"`

	key      kinds.Key
	resource *kinds.Resource
}

func (w *watching) batch(b mcp.Batch) error {
	initial := !w.started
	w.started = true
	changes := w.changes(b.Changes, initial)
	if len(changes) == 0 && !initial {
		return nil // of other namespaces
	}
	now := time.Now()
	switch w.program.output {
	case jsonFormat:
		return w.printJSON(b.Revision, now, changes)
	case yamlFormat:
		return w.printYAML(b.Revision, now, changes)
	case nameFormat:
		return w.printNames(changes)
	case table, wide:
	}
	return w.printLines(b.Revision, now, changes)
}

// changes picks out those that are to be seen and tells what they mean, in the order in which resources are printed.
func (w *watching) changes(of []mcp.Change, initial bool) []change {
	var seen []change
	for _, c := range of {
		n := w.program.namespace
		if !n.all && c.Key.Kind.Namespaced && c.Key.Namespace != n.name {
			continue
		}
		action := "created"
		switch {
		case initial:
			action = "current"
		case c.Resource == nil:
			action = "deleted"
		case w.known[c.Key]:
			action = "changed"
		}
		if c.Resource == nil && !w.known[c.Key] {
			continue // came and went within the batch
		}
		w.known[c.Key] = true
		if c.Resource == nil {
			delete(w.known, c.Key)
		}
		seen = append(seen, change{
			Action: action, Group: c.Key.Kind.Group, Kind: c.Key.Kind.Name, Space: c.Key.Namespace, Name: c.Key.Name,
			key: c.Key, resource: c.Resource,
		})
	}
	slices.SortFunc(seen, func(a, b change) int { return compare(a.key, b.key) })
	return seen
}

// title is the line above a batch. Servers that number nothing send the revision 0.
func title(revision int64, at time.Time) string {
	stamp := at.Format("2006-01-02 15:04:05.000")
	if revision == 0 {
		return stamp
	}
	return fmt.Sprintf("revision %d  %s", revision, stamp)
}

func (w *watching) printLines(revision int64, at time.Time, changes []change) error {
	var b strings.Builder
	fmt.Fprintln(&b, title(revision, at))
	for _, c := range changes {
		fmt.Fprintf(&b, "  %-7s  %s %s\n", c.Action, word(c.key.Kind), c.key.FullName())
	}
	return w.program.write([]byte(b.String()), nil)
}

func (w *watching) printNames(changes []change) error {
	var b strings.Builder
	for _, c := range changes {
		fmt.Fprintln(&b, reference(c.key))
	}
	return w.program.write([]byte(b.String()), nil)
}

// printYAML writes a document for each resource that is there. What is gone is a comment.
func (w *watching) printYAML(revision int64, at time.Time, changes []change) error {
	var b strings.Builder
	fmt.Fprintf(&b, "---\n# %s\n", title(revision, at))
	first := true
	for _, c := range changes {
		if c.resource == nil {
			fmt.Fprintf(&b, "# deleted: %s\n", c.key)
			continue
		}
		text, err := kinds.MarshalYAML(c.resource)
		if err != nil {
			return err
		}
		if !first {
			b.WriteString("---\n")
		}
		first = false
		fmt.Fprintf(&b, "# %s\n%s", c.Action, text)
	}
	return w.program.write([]byte(b.String()), nil)
}

// printJSON writes a batch on one line.
func (w *watching) printJSON(revision int64, at time.Time, changes []change) error {
	for i, c := range changes {
		if c.resource == nil {
			continue
		}
		text, err := kinds.MarshalJSON(c.resource)
		if err != nil {
			return err
		}
		changes[i].Resource = text
	}
	line, err := json.Marshal(struct {
		Revision int64     `json:"revision,omitempty"`
		Time     time.Time `json:"time"`
		Changes  []change  `json:"changes"`
	}{revision, at, changes})
	return w.program.write(append(line, '\n'), err)
}
