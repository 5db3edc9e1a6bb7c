package resources

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/internal/kit/reason"
	"github.com/pgmesh/pgmesh/internal/kit/terminal"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/arguments"
	"github.com/pgmesh/pgmesh/mcp-client/cli/connect"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
)

// Watch returns the command watch.
func Watch(s *session.Session) *cobra.Command {
	p := program{s}
	w := &watcher{program: p, known: map[kinds.Key]*kinds.Resource{}}
	cmd := &cobra.Command{
		Use:   "watch [KIND... | KIND/NAME...]",
		Short: "Print what changes, as it changes",
		Long: `Print resources as they stand and then every change, a batch at a time, until interrupted.

A batch from mcp-server is one revision, or several that were committed while an earlier one was on its way; it is never part of
one. Servers of others number nothing. The times are this machine's.

Under a resource that changed stands what changed in it; with -o wide also what is new and what is gone, in full. For programs there
is -o json, a line a batch.`,
		Example: `  mcp-client watch --count 1
  mcp-client watch vs dr -A --count 1
  mcp-client watch vs/reviews --diff=false --count 1
  mcp-client watch -o jsonpath={.revision} --count 1`,
		ValidArgsFunction: p.CompleteReferences,
		RunE: func(cmd *cobra.Command, args []string) error {
			query, err := parseWatched(args)
			if err != nil {
				return failure.Usage(cmd, err)
			}
			if p.Output.Format == output.CustomColumns {
				return failure.Usage(cmd, errors.New("watch prints no columns; jsonpath=TEMPLATE or go-template=TEMPLATE picks from each batch"))
			}
			w.query = query
			return w.follow(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&w.diff, "diff", true, "show what changed in a resource")
	cmd.Flags().IntVar(&w.limit, "count", 0, "end after so many batches; 0 is never")
	return cmd
}

// parseWatched parses any number of kinds and references; none means all kinds.
func parseWatched(args []string) ([]arguments.Wanted, error) {
	if len(args) == 0 {
		args = []string{"all"}
	}
	var query []arguments.Wanted
	for _, arg := range args {
		more, err := arguments.Parse([]string{arg})
		if err != nil {
			return nil, err
		}
		query = append(query, more...)
	}
	return query, nil
}

func (w *watcher) follow(ctx context.Context) error {
	p := w.program
	err := p.Server.Follow(ctx, arguments.KindsOf(w.query), w.events(), w.batch)
	if errors.Is(err, connect.ErrEnough) {
		return nil
	}
	return err
}

// events tells of the connection.
func (w *watcher) events() *connect.Events {
	at := w.program.Server.Address
	return &connect.Events{
		Reconnected: func() { w.say("connected to " + at + " again") },
		Lost: func(err error) {
			w.say("lost the server at " + at + ": " + reason.Plain(err).Error() + "; trying again")
		},
	}
}

// watcher is the state of a watch.
type watcher struct {
	program program
	query   []arguments.Wanted
	diff    bool
	limit   int // how many batches to print, 0 for all

	known   map[kinds.Key]*kinds.Resource // the current resources
	printed int
	said    string
}

// say prints the state of the connection, unless it was the last thing said.
func (w *watcher) say(text string) {
	if text != w.said {
		fmt.Fprintln(w.program.Err, text)
		w.said = text
	}
}

// watched is the printed form of one change.
type watched struct {
	Action   string          `json:"action"` // "current" in the first batch, then "created", "changed", "deleted"
	Group    string          `json:"group"`
	Kind     string          `json:"kind"`
	Space    string          `json:"namespace,omitempty"`
	Name     string          `json:"name"`
	Resource json.RawMessage `json:"resource,omitempty"`

	key           kinds.Key
	before, after *kinds.Resource
}

func (w *watcher) batch(b kinds.Batch) error {
	changes := w.changes(b.Changes)
	if len(changes) == 0 && w.printed > 0 {
		return nil // all were in other namespaces
	}
	w.printed++
	if err := w.print(b.Revision, time.Now(), changes); err != nil {
		return err
	}
	if w.printed == w.limit {
		return connect.ErrEnough
	}
	return nil
}

func (w *watcher) print(revision int64, now time.Time, changes []watched) error {
	switch w.program.Output.Format {
	case output.JSON, output.JSONPath, output.GoTemplate:
		return w.printJSON(revision, now, changes)
	case output.YAML:
		return w.printYAML(revision, now, changes)
	case output.Name:
		return w.printNames(changes)
	case output.Table, output.Wide, output.CustomColumns, output.SARIF, output.GitHub, output.Terraform:
	}
	return w.printLines(revision, now, changes)
}

// changes selects the matching changes and their actions, in print order.
func (w *watcher) changes(of []kinds.Change) []watched {
	var seen []watched
	for _, c := range of {
		before := w.known[c.Key]
		if !w.watches(c.Key) || before == nil && c.Resource == nil { // it was created and deleted within the batch
			continue
		}
		w.known[c.Key] = c.Resource
		if c.Resource == nil {
			delete(w.known, c.Key)
		}
		seen = append(seen, watched{
			Action: w.action(before, c.Resource), Group: c.Key.Kind.Group, Kind: c.Key.Kind.Name, Space: c.Key.Namespace, Name: c.Key.Name,
			key: c.Key, before: before, after: c.Resource,
		})
	}
	slices.SortFunc(seen, func(a, b watched) int { return connect.CompareKeys(a.key, b.key) })
	return seen
}

func (w *watcher) watches(k kinds.Key) bool {
	return slices.ContainsFunc(w.query, func(q arguments.Wanted) bool { return w.program.Namespace.Holds(q, k) })
}

func (w *watcher) action(before, after *kinds.Resource) string {
	switch {
	case w.printed == 0:
		return "current"
	case after == nil:
		return "deleted"
	case before != nil:
		return "changed"
	}
	return "created"
}

// title is the line above a batch. Revision 0 means that the server has none.
func title(revision int64, at time.Time) string {
	stamp := at.Format("2006-01-02 15:04:05.000")
	if revision == 0 {
		return stamp
	}
	return fmt.Sprintf("revision %d  %s", revision, stamp)
}

func (w *watcher) printLines(revision int64, at time.Time, changes []watched) error {
	p := w.program
	var b strings.Builder
	fmt.Fprintln(&b, p.Paint(terminal.Bold, title(revision, at)))
	for _, c := range changes {
		fmt.Fprintf(&b, "  %s  %s %s\n", p.PaintAction(c.Action, fmt.Sprintf("%-7s", c.Action)), words.Kind(c.key.Kind), c.key.FullName())
		if !w.diff || c.Action == "current" || c.Action != "changed" && p.Output.Format != output.Wide {
			continue
		}
		before, err := output.TextOf(c.before)
		if err != nil {
			return err
		}
		after, err := output.TextOf(c.after)
		if err != nil {
			return err
		}
		b.WriteString(output.Indent(p.PaintDiff(output.ChangedLines(before, after)), "    "))
	}
	return p.Print(b.String())
}

func (w *watcher) printNames(changes []watched) error {
	var b strings.Builder
	for _, c := range changes {
		fmt.Fprintln(&b, words.Reference(c.key))
	}
	return w.program.Print(b.String())
}

// printYAML writes a document per resource, and a comment for each deleted one.
func (w *watcher) printYAML(revision int64, at time.Time, changes []watched) error {
	var b strings.Builder
	fmt.Fprintf(&b, "---\n# %s\n", title(revision, at))
	first := true
	for _, c := range changes {
		if c.after == nil {
			fmt.Fprintf(&b, "# deleted: %s\n", c.key)
			continue
		}
		text, err := kinds.MarshalYAML(c.after)
		if err != nil {
			return err
		}
		if !first {
			b.WriteString("---\n")
		}
		first = false
		fmt.Fprintf(&b, "# %s\n%s", c.Action, text)
	}
	return w.program.PrintExactly([]byte(b.String()), nil)
}

// printJSON writes a batch on one line, or applies a template to it.
func (w *watcher) printJSON(revision int64, at time.Time, changes []watched) error {
	for i, c := range changes {
		if c.after == nil {
			continue
		}
		text, err := kinds.MarshalJSON(c.after)
		if err != nil {
			return err
		}
		changes[i].Resource = text
	}
	line, err := json.Marshal(struct {
		Revision int64     `json:"revision,omitempty"`
		Time     time.Time `json:"time"`
		Changes  []watched `json:"changes"`
	}{revision, at, changes})
	switch {
	case err != nil:
		return err
	case !w.program.Output.IsTemplate():
		return w.program.Print(string(line) + "\n")
	}
	if err := w.program.PrintTemplate(line); err != nil {
		return err
	}
	return w.program.Print("\n")
}
