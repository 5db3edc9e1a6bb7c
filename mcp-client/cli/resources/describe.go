package resources

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/internal/kit/terminal"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/arguments"
	"github.com/pgmesh/pgmesh/mcp-client/cli/connect"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/history"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
	"github.com/pgmesh/pgmesh/mcp-client/cli/problems"
	"github.com/pgmesh/pgmesh/mcp-client/cli/secrets"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
	"github.com/pgmesh/pgmesh/mcp-client/references"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// Describe returns the command describe.
func Describe(s *session.Session) *cobra.Command {
	p := program{s}
	return &cobra.Command{
		Use:   "describe (KIND [NAME...] | KIND/NAME...)",
		Short: "Tell everything about resources, for people",
		Long: `Tell everything about resources, for people: what they say, what they refer to and what refers to them, and, of a pgmesh server, who
changed them last, what is wrong with them, and which proxies run them.

What refers to what is found by reading everything that the server has; who may see what is left aside there.`,
		Example: `  mcp-client describe vs/reviews
  mcp-client describe serviceentries -A
  mcp-client describe secrets -A`,
		ValidArgsFunction: p.CompleteResources,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !p.Output.IsTable() {
				return failure.Usage(cmd, errors.New("describe is for people; get has -o "+string(p.Output.Format)))
			}
			if secrets.Asked(args) {
				return secrets.Describe(cmd, p.Session, args)
			}
			query, err := arguments.Parse(args)
			if err != nil {
				return failure.Usage(cmd, err)
			}
			return p.describe(cmd.Context(), query)
		},
	}
}

// describer has the data that descriptions are made from.
type describer struct {
	program  program
	links    *references.Index
	admin    bool // the server has the admin API
	problems []problems.Problem
	statuses output.Statuses
}

// describedRevisions is how many revisions of the history to show.
const describedRevisions = 5

func (p program) describe(ctx context.Context, query []arguments.Wanted) error {
	read, err := p.Read(ctx, kinds.All())
	if err != nil {
		return err
	}
	found, missing := p.Namespace.Find(query, read.Resources)
	if len(found) == 0 && len(missing) == 0 {
		p.NothingFound(query)
		p.TellUnknownNamespace(ctx, query, nil, read.Resources)
		return nil
	}
	d := &describer{program: p}
	if d.links, err = references.Of(read.Resources); err != nil {
		return err
	}
	if err := d.readProblems(ctx, found); err != nil {
		return err
	}
	if d.admin {
		d.statuses = p.statuses(ctx, found)
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
		return failure.Several(missing)
	}
	return nil
}

// readProblems asks for the problems of these resources. Servers other than pgmesh have none.
func (d *describer) readProblems(ctx context.Context, about []*kinds.Resource) error {
	req := &adminv1.ProblemsRequest{}
	for _, r := range about {
		of := []string{r.Namespace}
		if r.Origin() != "" {
			of = append(of, "") // where those of registries are
		}
		for _, namespace := range of {
			if !slices.Contains(req.GetNamespaces(), namespace) {
				req.Namespaces = append(req.Namespaces, namespace)
			}
		}
	}
	d.admin = true
	resp, err := session.Ask(ctx, d.program.Session, adminv1.AdminServiceClient.Problems, req)
	if _, others := errors.AsType[*failure.NotOffered](err); others || failure.IsRelay(err) {
		d.admin = false
		return nil
	}
	d.problems = problems.Of(resp.GetProblems())
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
		d.status(&b, r)
		if err := d.runners(ctx, &b, r.Key()); err != nil {
			return err
		}
		if err := d.history(ctx, &b, r.Key()); err != nil {
			return err
		}
	}
	return d.program.Print(b.String())
}

func (d *describer) title(b *strings.Builder, text string) {
	fmt.Fprintln(b, d.program.Paint(terminal.Bold, text+":"))
}

func (d *describer) metadata(b *strings.Builder, r *kinds.Resource) {
	w := output.NewRows(b)
	w.Row("Name:", r.Name)
	if r.Kind.Namespaced {
		w.Row("Namespace:", r.Namespace)
	}
	w.Row("Kind:", r.Kind.Name+" ("+r.Kind.APIVersion()+")")
	if registry := r.Origin(); registry != "" {
		w.Row("Origin:", strings.TrimSuffix("the registry "+registry+", "+r.Annotations[kinds.OriginEntryAnnotation], ", "))
	}
	w.Pairs("Labels:", r.Labels)
	w.Pairs("Annotations:", r.Annotations)
	if !r.CreateTime.IsZero() {
		w.Row("Created:", words.LocalTime(r.CreateTime)+", "+words.Age(r.CreateTime)+" ago")
	}
	w.Flush() // writing to a strings.Builder cannot fail
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
	b.WriteString(output.Indent(string(spec), "  "))
	return nil
}

func (d *describer) references(b *strings.Builder, k kinds.Key) {
	if from := d.links.From(k); len(from) > 0 {
		d.title(b, "Refers to")
		w := output.NewRows(b)
		for _, r := range from {
			w.Row("  "+r.Path, r.Name, d.found(r))
		}
		w.Flush()
	}
	if to := d.links.To(k); len(to) > 0 {
		d.title(b, "Referred to by")
		w := output.NewRows(b)
		for _, r := range to {
			w.Row("  "+keyTitles([]kinds.Key{r.From}), r.Path)
		}
		w.Flush()
	}
}

// found says what has the name of a reference.
func (d *describer) found(r references.Reference) string {
	switch {
	case len(r.To) > 0:
		return keyTitles(r.To)
	case r.BuiltIn:
		return "(built in)"
	default:
		return d.program.Paint(terminal.Yellow, "(not found)")
	}
}

func keyTitles(keys []kinds.Key) string {
	var titles []string
	for _, k := range keys {
		titles = append(titles, words.Kind(k.Kind)+" "+k.FullName())
	}
	return strings.Join(titles, ", ")
}

var severityStyles = map[string]terminal.Style{"error": terminal.Red, "warning": terminal.Yellow}

func (d *describer) wrong(b *strings.Builder, r *kinds.Resource) {
	first := true
	for _, f := range d.problems {
		if !isAbout(f, r) {
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
		fmt.Fprintf(b, "  %s  %s  %s\n", d.program.Paint(severityStyles[f.Severity], f.Severity), f.Code, terminal.Line(text))
	}
}

// isAbout reports whether a problem is one of a resource, or makes it stale.
func isAbout(f problems.Problem, r *kinds.Resource) bool {
	if f.Code == "stale-registry" {
		return f.Name == r.Origin()
	}
	return f.Group == r.Kind.Group && f.Kind == r.Kind.Name && f.Space == r.Namespace && f.Name == r.Name
}

// status shows the conditions of a resource.
func (d *describer) status(b *strings.Builder, r *kinds.Resource) {
	status := d.statuses[r.Key()]
	if status == nil {
		return
	}
	d.title(b, "Status")
	w := output.NewRows(b)
	for _, c := range status.Conditions {
		w.Row("  "+c.Type, d.program.Paint(output.StyleOf(c.Status), c.Status), c.Reason, words.FirstLine(c.Message))
	}
	w.Flush()
	d.parts(b, status)
}

// parts shows how a route stands at its parents, and how listeners stand.
func (d *describer) parts(b *strings.Builder, status *output.Status) {
	for _, of := range []struct{ title, list string }{{"Parents", "parents"}, {"Listeners", "listeners"}} {
		parts := status.Parts(of.list)
		if len(parts) == 0 {
			continue
		}
		d.title(b, of.title)
		w := output.NewRows(b)
		for _, part := range parts {
			for i, c := range part.Conditions {
				name := ""
				if i == 0 {
					name = part.Title
				}
				w.Row("  "+name, c.Type, d.program.Paint(output.StyleOf(c.Status), c.Status), c.Reason, words.FirstLine(c.Message))
			}
		}
		w.Flush()
	}
}

// describedRunners is how many proxies to show. Those that do not run the resource come first.
const describedRunners = 20

// runners shows which proxies a resource concerns, and which of them run it.
func (d *describer) runners(ctx context.Context, b *strings.Builder, k kinds.Key) error {
	if d.statuses[k] == nil {
		return nil
	}
	resp, err := session.Call(ctx, d.program.Session, adminv1.NewProxyServiceClient, adminv1.ProxyServiceClient.ListRunners, &adminv1.ListRunnersRequest{Resource: connect.RefOf(k)})
	if err != nil {
		return err
	}
	list := resp.GetRunners()
	if len(list) == 0 {
		return nil
	}
	slices.SortStableFunc(list, func(x, y *adminv1.ListRunnersResponse_Runner) int {
		return cmp.Compare(rank(x), rank(y))
	})
	d.title(b, fmt.Sprintf("Proxies (%d of %d run it)", d.statuses[k].Proxies.Running, len(list)))
	w := output.NewRows(b)
	for i, r := range list {
		if i == describedRunners {
			w.Row(fmt.Sprintf("  and %d more", len(list)-i))
			break
		}
		w.Row("  "+r.GetProxy().GetNamespace()+"/"+r.GetProxy().GetProxy(), r.GetProxy().GetState(), "runs revision "+words.Revision(r.GetProxy().GetRuns()), d.runs(r))
	}
	return w.Flush()
}

func rank(r *adminv1.ListRunnersResponse_Runner) int {
	if r.GetRuns() {
		return 1
	}
	return 0
}

// runs says whether a proxy runs the resource as it is now.
func (d *describer) runs(r *adminv1.ListRunnersResponse_Runner) string {
	if r.GetRuns() {
		return d.program.Paint(terminal.Green, "runs it")
	}
	return d.program.Paint(terminal.Yellow, "does not run it yet")
}

func (d *describer) history(ctx context.Context, b *strings.Builder, k kinds.Key) error {
	found, err := history.Of(ctx, d.program.Session, k, describedRevisions)
	if err != nil || len(found) == 0 {
		return err
	}
	d.title(b, "History")
	w := output.NewRows(b)
	for _, r := range found {
		w.Row(
			"  revision "+fmt.Sprint(r.Revision), words.LocalTime(r.Time)+", "+words.Span(time.Since(r.Time))+" ago", r.Changes[0].Action,
			words.MadeBy(r.Author, r.Application), words.FirstLine(r.Message),
		)
	}
	w.Flush()
	return nil
}
