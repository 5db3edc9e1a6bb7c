package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/internal/kit/terminal"
	"github.com/pgmesh/pgmesh/kinds"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// historyOptions are the options of a history.
type historyOptions struct {
	scope

	author, message string
	since, until    timeFlag
	limit           int
	changes, diff   bool
}

func (p *session) historyCommand() *cobra.Command {
	var h historyOptions
	cmd := &cobra.Command{
		Use:   "history [KIND [NAME...] | KIND/NAME...]",
		Short: "List revisions: who changed what, when and why",
		Long: `List revisions, the newest first: who changed the mesh, when and why. With arguments, those that changed such resources.

All namespaces are meant unless -n is given, or a resource is named. --changes lists what each revision changed, --diff shows how.`,
		Example: `  mcp-client history
  mcp-client history vs/reviews --diff
  mcp-client history -n default --since 24h --changes
  mcp-client history --message canary --limit 5 -o json`,
		ValidArgsFunction: p.completeResources,
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.history(cmd, args, h)
		},
	}
	h.declareFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&h.author, "author", "", "only revisions of this author")
	f.StringVar(&h.message, "message", "", "only revisions whose message contains this")
	f.Var(&h.since, "since", "only revisions after this time, or so long ago")
	f.Var(&h.until, "until", "only revisions before this time, or so long ago")
	f.IntVar(&h.limit, "limit", 20, "at most so many revisions; 0 is all")
	f.BoolVar(&h.changes, "changes", false, "list what each revision changed")
	f.BoolVar(&h.diff, "diff", false, "show what each revision changed")
	return cmd
}

// pastRevision is the printed form of a revision.
type pastRevision struct {
	Revision    int64        `json:"revision"`
	Time        time.Time    `json:"time"`
	Author      string       `json:"author,omitempty"`
	Application string       `json:"application,omitempty"`
	Message     string       `json:"message,omitempty"`
	Size        int32        `json:"size"` // the number of resources it changed
	Changes     []difference `json:"changes"`
	Omitted     int32        `json:"omittedChanges,omitempty"`
}

func (p *session) history(cmd *cobra.Command, args []string, h historyOptions) error {
	s, err := p.scoped(args, h.scope)
	if err != nil {
		return err
	}
	found, err := p.revisions(cmd.Context(), s, h)
	if err != nil {
		return err
	}
	return p.printHistory(found, h)
}

// revisions gets the revisions page by page.
func (p *session) revisions(ctx context.Context, s scoped, h historyOptions) ([]pastRevision, error) {
	req := &adminv1.HistoryRequest{
		Kinds: s.kinds, Namespaces: s.namespaces, Names: s.names, Author: h.author, Message: h.message,
		Since: h.since.stamp(), Until: h.until.stamp(), Documents: h.diff, PageSize: int32(min(h.limit, 1000)),
	}
	found := []pastRevision{}
	for {
		resp, err := ask(ctx, p, adminv1.AdminServiceClient.History, req)
		if err != nil {
			return nil, err
		}
		for _, sent := range resp.GetRevisions() {
			r, err := p.pastRevision(sent, s)
			if err != nil {
				return nil, err
			}
			if len(s.query) > 0 && len(r.Changes) == 0 {
				continue // the request names sets, which may match more than the query
			}
			if found = append(found, r); len(found) == h.limit {
				return found, nil
			}
		}
		if req.PageToken = resp.GetNextPageToken(); req.GetPageToken() == "" {
			return found, nil
		}
	}
}

// revisionsOf returns the newest revisions that changed one resource, the newest first.
func revisionsOf(ctx context.Context, p *session, k kinds.Key, limit int) ([]pastRevision, error) {
	one := scoped{
		query: []wanted{{k.Kind, k.Namespace, k.Name}}, kinds: kindWords([]*kinds.Kind{k.Kind}),
		namespaces: []string{requestedNamespace(k.Namespace)}, names: []string{k.Name},
	}
	return p.revisions(ctx, one, historyOptions{limit: limit})
}

func (p *session) pastRevision(sent *adminv1.Revision, s scoped) (pastRevision, error) {
	r := pastRevision{
		sent.GetRevision(), sent.GetTime().AsTime(), sent.GetAuthor(), sent.GetApplication(), sent.GetMessage(), sent.GetSize(),
		[]difference{},
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

func pastChange(c *adminv1.Change) (difference, error) {
	ref := c.GetResource()
	d := difference{Action: operations[c.GetOperation()], Group: ref.GetGroup(), Kind: ref.GetKind(), Space: ref.GetNamespace(), Name: ref.GetName()}
	before, err := documentText(c.GetBefore())
	if err != nil {
		return d, err
	}
	after, err := documentText(c.GetAfter())
	d.Diff = changedLines(before, after)
	return d, err
}

func (p *session) printHistory(found []pastRevision, h historyOptions) error {
	switch {
	case p.output.isTree():
		return p.printTree(found)
	case p.output.format == nameFormat:
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
	w := newRows(p.Out)
	titles := []string{"REVISION", "TIME", "AUTHOR", "RESOURCES", "MESSAGE"}
	if p.output.format == wide {
		titles = []string{"REVISION", "TIME", "AUTHOR", "APPLICATION", "RESOURCES", "MESSAGE"}
	}
	w.row(titles...)
	for _, r := range found {
		row := []string{fmt.Sprint(r.Revision), localTime(r.Time), orDash(r.Author), fmt.Sprint(r.Size), firstLine(r.Message)}
		if p.output.format == wide {
			row = []string{row[0], row[1], row[2], orDash(r.Application), row[3], row[4]}
		}
		w.row(row...)
	}
	return w.Flush()
}

// printChanges prints one paragraph per revision.
func (p *session) printChanges(found []pastRevision) error {
	var b strings.Builder
	for _, r := range found {
		fmt.Fprintf(&b, "%s  %s  %s\n", p.paint(terminal.Bold, fmt.Sprintf("revision %d", r.Revision)), localTime(r.Time), madeBy(r.Author, r.Application))
		if r.Message != "" {
			b.WriteString(indent(strings.TrimSuffix(r.Message, "\n")+"\n", "    "))
		}
		for _, c := range r.Changes {
			fmt.Fprintf(&b, "  %s  %s\n", p.paintAction(c.Action, fmt.Sprintf("%-7s", c.Action)), titleOf(c.Group, c.Kind, c.Space, c.Name))
			b.WriteString(indent(p.paintDiff(c.Diff), "    "))
		}
		if r.Omitted > 0 {
			fmt.Fprintf(&b, "  and %d more (see mcp-client diff %d %d)\n", r.Omitted, r.Revision-1, r.Revision)
		}
	}
	return p.print(b.String())
}

func firstLine(text string) string {
	first, _, _ := strings.Cut(text, "\n")
	return terminal.Line(strings.ReplaceAll(first, "\t", " "))
}
