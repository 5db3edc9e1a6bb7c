package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/internal/kit/terminal"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/references"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

func (p *session) describeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "describe (KIND [NAME...] | KIND/NAME...)",
		Short: "Tell everything about resources, for people",
		Long: `Tell everything about resources, for people: what they say, what they refer to and what refers to them, and, of a pgmesh server, who
changed them last and what is wrong with them.

What refers to what is found by reading everything that the server has; who may see what is left aside there.`,
		Example: `  mcp-client describe vs/reviews
  mcp-client describe serviceentries -A`,
		ValidArgsFunction: p.completeResources,
		RunE: func(cmd *cobra.Command, args []string) error {
			query, err := parseWanted(args)
			if err != nil {
				return usage(cmd, err)
			}
			if !p.output.isTable() {
				return usage(cmd, errors.New("describe is for people; get has -o "+string(p.output.format)))
			}
			return p.describe(cmd.Context(), query)
		},
	}
}

// describer has the data that descriptions are made from.
type describer struct {
	program  *session
	links    *references.Index
	admin    bool // the server has the admin API
	problems []problem
}

// describedRevisions is how many revisions of the history to show.
const describedRevisions = 5

func (p *session) describe(ctx context.Context, query []wanted) error {
	read, err := p.read(ctx, kinds.All())
	if err != nil {
		return err
	}
	found, missing := p.namespace.find(query, read.resources)
	if len(found) == 0 && len(missing) == 0 {
		fmt.Fprintf(p.Err, "nothing found in %s\n", p.namespace)
		return nil
	}
	d := &describer{program: p}
	if d.links, err = references.Of(read.resources); err != nil {
		return err
	}
	if err := d.readProblems(ctx, found); err != nil {
		return err
	}
	for i, r := range found {
		if i > 0 {
			fmt.Fprintln(p.Out)
		}
		if err := d.describe(ctx, r); err != nil {
			return err
		}
	}
	if len(missing) > 0 {
		return failuresError(missing)
	}
	return nil
}

// readProblems asks for the problems of these resources. Servers other than pgmesh have none.
func (d *describer) readProblems(ctx context.Context, about []*kinds.Resource) error {
	req := &adminv1.ProblemsRequest{}
	for _, r := range about {
		if !slices.Contains(req.GetNamespaces(), r.Namespace) {
			req.Namespaces = append(req.Namespaces, r.Namespace)
		}
	}
	d.admin = true
	resp, err := ask(ctx, d.program, adminv1.AdminServiceClient.Problems, req)
	if _, others := errors.AsType[*notOfferedError](err); others {
		d.admin = false
		return nil
	}
	d.problems = problemsOf(resp.GetProblems())
	return err
}

func (d *describer) describe(ctx context.Context, r *kinds.Resource) error {
	var b strings.Builder
	d.metadata(&b, r)
	if err := d.spec(&b, r); err != nil {
		return err
	}
	d.references(&b, r.Key())
	if d.admin {
		d.wrong(&b, r)
		if err := d.history(ctx, &b, r.Key()); err != nil {
			return err
		}
	}
	return d.program.print(b.String())
}

func (d *describer) title(b *strings.Builder, text string) {
	fmt.Fprintln(b, d.program.paint(terminal.Bold, text+":"))
}

func (d *describer) metadata(b *strings.Builder, r *kinds.Resource) {
	w := newRows(b)
	w.row("Name:", r.Name)
	if r.Kind.Namespaced {
		w.row("Namespace:", r.Namespace)
	}
	w.row("Kind:", r.Kind.Name+" ("+r.Kind.APIVersion()+")")
	writePairs(w, "Labels:", r.Labels)
	writePairs(w, "Annotations:", r.Annotations)
	if !r.CreateTime.IsZero() {
		w.row("Created:", localTime(r.CreateTime)+", "+age(r.CreateTime)+" ago")
	}
	w.Flush() // writing to a strings.Builder cannot fail
}

// writePairs writes one line per entry of a map.
func writePairs(w *rows, title string, pairs map[string]string) {
	if len(pairs) == 0 {
		w.row(title, "-")
	}
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		w.row(title, key+"="+strings.Join(strings.Fields(pairs[key]), " "))
		title = ""
	}
}

func (d *describer) spec(b *strings.Builder, r *kinds.Resource) error {
	text, err := r.SpecJSON()
	if err != nil {
		return err
	}
	spec, err := kinds.YAML(text)
	if err != nil {
		return err
	}
	d.title(b, "Spec")
	b.WriteString(indent(string(spec), "  "))
	return nil
}

func (d *describer) references(b *strings.Builder, k kinds.Key) {
	if from := d.links.From(k); len(from) > 0 {
		d.title(b, "Refers to")
		w := newRows(b)
		for _, r := range from {
			to := d.program.paint(terminal.Yellow, "(not found)")
			if len(r.To) > 0 {
				to = keyTitles(r.To)
			}
			w.row("  "+r.Path, r.Name, to)
		}
		w.Flush()
	}
	if to := d.links.To(k); len(to) > 0 {
		d.title(b, "Referred to by")
		w := newRows(b)
		for _, r := range to {
			w.row("  "+keyTitles([]kinds.Key{r.From}), r.Path)
		}
		w.Flush()
	}
}

func keyTitles(keys []kinds.Key) string {
	var titles []string
	for _, k := range keys {
		titles = append(titles, word(k.Kind)+" "+k.FullName())
	}
	return strings.Join(titles, ", ")
}

var severityStyles = map[string]terminal.Style{"error": terminal.Red, "warning": terminal.Yellow}

func (d *describer) wrong(b *strings.Builder, r *kinds.Resource) {
	first := true
	for _, f := range d.problems {
		if f.Group != r.Kind.Group || f.Kind != r.Kind.Name || f.Space != r.Namespace || f.Name != r.Name {
			continue
		}
		if first {
			d.title(b, "Problems")
			first = false
		}
		text := f.Message
		if f.Path != "" {
			text = f.Path + ": " + text
		}
		if f.Hint != "" {
			text += " (" + f.Hint + ")"
		}
		fmt.Fprintf(b, "  %s  %s  %s\n", d.program.paint(severityStyles[f.Severity], f.Severity), f.Code, terminal.Line(text))
	}
}

func (d *describer) history(ctx context.Context, b *strings.Builder, k kinds.Key) error {
	found, err := revisionsOf(ctx, d.program, k, describedRevisions)
	if err != nil || len(found) == 0 {
		return err
	}
	d.title(b, "History")
	w := newRows(b)
	for _, r := range found {
		w.row(
			"  revision "+fmt.Sprint(r.Revision), localTime(r.Time)+", "+span(time.Since(r.Time))+" ago", r.Changes[0].Action,
			madeBy(r.Author, r.Application), firstLine(r.Message),
		)
	}
	w.Flush()
	return nil
}
