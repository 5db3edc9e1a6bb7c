// Package history has the commands on the past of a mesh: who changed what, and how to go back.
package history

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/internal/kit/terminal"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/arguments"
	"github.com/pgmesh/pgmesh/mcp-client/cli/compare"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// program is a run of mcp-client, with the commands of this package.
type program struct{ *session.Session }

// historyOptions are the options of a history.
type historyOptions struct {
	arguments.Scope

	author, message string
	since, until    arguments.TimeFlag
	limit           int
	changes, diff   bool
	machines        bool // also what machines changed alone
	lookOlder       bool // whether there is more than the limit
}

// History returns the command history.
func History(s *session.Session) *cobra.Command {
	p := program{s}
	var h historyOptions
	cmd := &cobra.Command{
		Use:   "history [KIND [NAME...] | KIND/NAME...]",
		Short: "List revisions: who changed what, when and why",
		Long: `List revisions, the newest first: who changed the mesh, when and why. With arguments, those that changed such resources.

All namespaces are meant unless -n is given, or a resource is named. CHANGED names the first of what each revision changed, --changes
lists it all, and --diff shows how.

Machines that come, go, or are found healthy or not make revisions, too, of their WorkloadEntries. They are left out and counted unless --machines is
given, or arguments, --kind or --author say what is meant.`,
		Example: `  mcp-client history
  mcp-client history vs/reviews --diff
  mcp-client history -n default --since 24h --changes
  mcp-client history --since 1h --machines
  mcp-client history --message canary --limit 5 -o json`,
		ValidArgsFunction: p.CompleteResources,
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.history(cmd, args, h)
		},
	}
	h.DeclareFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&h.author, "author", "", "only revisions of this author")
	f.StringVar(&h.message, "message", "", "only revisions whose message contains this")
	f.Var(&h.since, "since", "only revisions after this time, or so long ago")
	f.Var(&h.until, "until", "only revisions before this time, or so long ago")
	f.IntVar(&h.limit, "limit", 20, "at most so many revisions; 0 is all")
	f.BoolVar(&h.changes, "changes", false, "list what each revision changed")
	f.BoolVar(&h.machines, "machines", false, "list also revisions that changed nothing but WorkloadEntries of registered machines")
	f.BoolVar(&h.diff, "diff", false, "show what each revision changed")
	return cmd
}

// Revision is the printed form of a revision.
type Revision struct {
	Revision    int64                `json:"revision"`
	Time        time.Time            `json:"time"`
	Author      string               `json:"author,omitempty"`
	Application string               `json:"application,omitempty"`
	Message     string               `json:"message,omitempty"`
	Size        int32                `json:"size"` // the number of resources it changed
	Changes     []compare.Difference `json:"changes"`
	Omitted     int32                `json:"omittedChanges,omitempty"`
}

func (p program) history(cmd *cobra.Command, args []string, h historyOptions) error {
	s, err := p.scoped(args, h.Scope)
	if err != nil {
		return err
	}
	h.machines = h.machines || len(args) > 0 || len(s.kinds) > 0 || h.author != ""
	h.lookOlder = true
	past, err := p.revisions(cmd.Context(), s, h)
	if err != nil {
		return err
	}
	if err := p.printHistory(past.found, h); err != nil {
		return err
	}
	if len(past.found) == 0 && past.leftOut == 0 {
		p.TellIfUnknown(cmd.Context(), s.query)
	}
	if past.leftOut > 0 {
		fmt.Fprintf(p.Err, "and %s by machines; --machines shows them\n", words.Counted(int(past.leftOut), "change", "changes"))
	}
	if past.older {
		fmt.Fprintf(p.Err, "there are older ones; --limit %d shows more, and --limit 0 all\n", 10*h.limit)
	}
	return nil
}

// past is what a history has found.
type past struct {
	found   []Revision
	leftOut int64 // how many of machines were left out
	older   bool  // there are more, if that was looked for
}

// revisions gets the revisions page by page, and then looks for one that is older.
func (p program) revisions(ctx context.Context, s scoped, h historyOptions) (all past, err error) {
	req := &adminv1.HistoryRequest{
		Kinds: s.kinds, Namespaces: s.namespaces, Names: s.names, Author: h.author, Message: h.message,
		Since: h.since.Stamp(), Until: h.until.Stamp(), Documents: h.diff, PageSize: int32(min(h.limit, 1000)),
		WithoutMachines: !h.machines,
	}
	all.found = []Revision{}
	for {
		resp, err := session.Ask(ctx, p.Session, adminv1.AdminServiceClient.History, req)
		if err != nil {
			return past{}, err
		}
		full := h.limit > 0 && len(all.found) == h.limit
		if !full { // those of machines below the last that is shown are not meant
			all.leftOut += resp.GetLeftOut()
		}
		for _, sent := range resp.GetRevisions() {
			r, err := p.pastRevision(sent, s)
			if err != nil {
				return past{}, err
			}
			if len(s.query) > 0 && len(r.Changes) == 0 {
				continue // the request names sets, which may match more than the query
			}
			if full {
				all.older = true
				return all, nil
			}
			all.found = append(all.found, r)
			full = len(all.found) == h.limit
		}
		req.PageToken = resp.GetNextPageToken()
		if req.GetPageToken() == "" || full && !h.lookOlder {
			return all, nil
		}
		if full && len(s.query) == 0 {
			req.PageSize = 1
		}
	}
}

// Of returns the newest revisions that changed one resource, the newest first.
func Of(ctx context.Context, s *session.Session, k kinds.Key, limit int) ([]Revision, error) {
	one := scoped{
		query: []arguments.Wanted{{Kind: k.Kind, Namespace: k.Namespace, Name: k.Name}}, kinds: arguments.FullNames([]*kinds.Kind{k.Kind}),
		namespaces: []string{requestedNamespace(k.Namespace)}, names: []string{k.Name},
	}
	all, err := program{s}.revisions(ctx, one, historyOptions{limit: limit, machines: true})
	return all.found, err
}

func (p program) pastRevision(sent *adminv1.Revision, s scoped) (Revision, error) {
	r := Revision{
		sent.GetRevision(), sent.GetTime().AsTime(), sent.GetAuthor(), sent.GetApplication(), sent.GetMessage(), sent.GetSize(),
		[]compare.Difference{},
		sent.GetOmittedChanges(),
	}
	for _, c := range sent.GetChanges() {
		if !s.holds(p, c.GetResource()) {
			continue
		}
		d, err := pastChange(c)
		if err != nil {
			return r, err
		}
		r.Changes = append(r.Changes, d)
	}
	return r, nil
}

func pastChange(c *adminv1.Change) (compare.Difference, error) {
	ref := c.GetResource()
	d := compare.Difference{Action: words.Done[c.GetOperation()], Group: ref.GetGroup(), Kind: ref.GetKind(), Space: ref.GetNamespace(), Name: ref.GetName()}
	before, err := DocumentText(c.GetBefore())
	if err != nil {
		return d, err
	}
	after, err := DocumentText(c.GetAfter())
	d.Diff = output.ChangedLines(before, after)
	return d, err
}

func (p program) printHistory(found []Revision, h historyOptions) error {
	switch {
	case p.Output.IsTree():
		return p.PrintTree(found)
	case p.Output.Format == output.Name:
		for _, r := range found {
			fmt.Fprintln(p.Out, r.Revision)
		}
		return nil
	case len(found) == 0:
		fmt.Fprintln(p.Err, "no revision found")
		return nil
	case h.changes || h.diff:
		return p.printChanges(found)
	}
	w := output.NewRows(p.Out)
	titles := []string{"REVISION", "TIME", "AUTHOR", "RESOURCES", "CHANGED", "MESSAGE"}
	if p.Output.Format == output.Wide {
		titles = slices.Insert(titles, 3, "APPLICATION")
	}
	w.Row(titles...)
	for _, r := range found {
		row := []string{fmt.Sprint(r.Revision), words.LocalTime(r.Time), words.OrDash(r.Author), fmt.Sprint(r.Size), r.summary(), words.FirstLine(r.Message)}
		if p.Output.Format == output.Wide {
			row = slices.Insert(row, 3, words.OrDash(r.Application))
		}
		w.Row(row...)
	}
	return w.Flush()
}

// mostNamed is how many of its changes a line names of a revision.
const mostNamed = 2

// summary names what a revision changed, in a line.
func (r *Revision) summary() string {
	var named []string
	for _, c := range r.Changes[:min(len(r.Changes), mostNamed)] {
		named = append(named, words.Title(c.Group, c.Kind, c.Space, c.Name)+" "+c.Action)
	}
	text := words.OrDash(strings.Join(named, ", "))
	if more := len(r.Changes) - len(named) + int(r.Omitted); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// printChanges prints one paragraph per revision.
func (p program) printChanges(found []Revision) error {
	var b strings.Builder
	for _, r := range found {
		fmt.Fprintf(&b, "%s  %s  %s\n", p.Paint(terminal.Bold, fmt.Sprintf("revision %d", r.Revision)), words.LocalTime(r.Time), words.MadeBy(r.Author, r.Application))
		if r.Message != "" {
			b.WriteString(output.Indent(strings.TrimSuffix(r.Message, "\n")+"\n", "    "))
		}
		for _, c := range r.Changes {
			fmt.Fprintf(&b, "  %s  %s\n", p.PaintAction(c.Action, fmt.Sprintf("%-7s", c.Action)), words.Title(c.Group, c.Kind, c.Space, c.Name))
			b.WriteString(output.Indent(p.PaintDiff(c.Diff), "    "))
		}
		if r.Omitted > 0 {
			fmt.Fprintf(&b, "  and %d more (see mcp-client diff %d %d)\n", r.Omitted, r.Revision-1, r.Revision)
		}
	}
	return p.Print(b.String())
}
