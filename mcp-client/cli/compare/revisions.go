package compare

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pgmesh/pgmesh/internal/kit/terminal"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/arguments"
	"github.com/pgmesh/pgmesh/mcp-client/cli/connect"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// revisionDifference is the printed form of the difference between two revisions.
type revisionDifference struct {
	From      int64          `json:"from"`
	To        int64          `json:"to"`
	Resources []resourceDiff `json:"resources"`
}

type resourceDiff struct {
	Operation string      `json:"operation"` // create, update or delete
	Group     string      `json:"group"`
	Kind      string      `json:"kind"`
	Space     string      `json:"namespace,omitempty"`
	Name      string      `json:"name"`
	Fields    []fieldDiff `json:"fields"`
}

type fieldDiff struct {
	Path   string          `json:"path,omitempty"`
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
}

func (p program) diffRevisions(cmd *cobra.Command, args []string, only arguments.Scope) error {
	req := &adminv1.DiffRequest{Namespaces: p.Namespace.Requested()}
	var err error
	if req.Kinds, err = only.Requested(); err != nil {
		return err
	}
	from, err := arguments.ParseMoment(args[0])
	if err != nil {
		return failure.Usage(cmd, err)
	}
	req.From = &adminv1.DiffRequest_FromRevision{FromRevision: from.Revision}
	if !from.Time.IsZero() {
		req.From = &adminv1.DiffRequest_FromTime{FromTime: timestamppb.New(from.Time)}
	}
	if len(args) > 1 {
		to, err := arguments.ParseMoment(args[1])
		if err != nil {
			return failure.Usage(cmd, err)
		}
		req.To = &adminv1.DiffRequest_ToRevision{ToRevision: to.Revision}
		if !to.Time.IsZero() {
			req.To = &adminv1.DiffRequest_ToTime{ToTime: timestamppb.New(to.Time)}
		}
	}
	found, err := p.revisionDiff(cmd.Context(), req)
	if err != nil {
		return err
	}
	if err := p.printRevisionDiff(found); err != nil {
		return err
	}
	if len(args) == 1 && from.Revision > 0 && p.Output.IsTable() {
		fmt.Fprintf(p.Err, "that is what has changed since; what revision %d itself has changed: mcp-client diff %d %d\n", from.Revision, from.Revision-1, from.Revision)
	}
	if len(found.Resources) == 0 {
		return nil
	}
	return failure.ErrDifferent
}

func (p program) revisionDiff(ctx context.Context, req *adminv1.DiffRequest) (*revisionDifference, error) {
	notice := p.Notice("asking " + p.Server.Address)
	defer notice.End()
	found := &revisionDifference{Resources: []resourceDiff{}}
	err := connect.Each(ctx, &p.Server, adminv1.NewAdminServiceClient, adminv1.AdminServiceClient.Diff, req, func(answer *adminv1.DiffResponse) error {
		notice.Count(0)
		found.From, found.To = answer.GetFrom(), answer.GetTo()
		for _, r := range answer.GetResources() {
			found.Resources = append(found.Resources, resourceDiffOf(r))
		}
		return nil
	})
	return found, err
}

func resourceDiffOf(sent *adminv1.ResourceDiff) resourceDiff {
	r := sent.GetResource()
	d := resourceDiff{sent.GetOperation(), r.GetGroup(), r.GetKind(), r.GetNamespace(), r.GetName(), []fieldDiff{}}
	for _, f := range sent.GetFields() {
		d.Fields = append(d.Fields, fieldDiff{f.GetPath(), output.ValueJSON(f.GetBefore()), output.ValueJSON(f.GetAfter())})
	}
	return d
}

func (p program) printRevisionDiff(d *revisionDifference) error {
	if p.Output.IsTree() {
		return p.PrintTree(d)
	}
	var b strings.Builder
	if p.Output.IsTable() {
		fmt.Fprintln(&b, p.Paint(terminal.Bold, fmt.Sprintf("revision %d to %d", d.From, d.To)))
	}
	for _, r := range d.Resources {
		if p.Output.Format == output.Name {
			fmt.Fprintln(&b, words.ReferenceTo(r.Group, r.Kind, r.Space, r.Name))
			continue
		}
		action := words.Done[r.Operation]
		fmt.Fprintf(&b, "%s %s\n", words.Title(r.Group, r.Kind, r.Space, r.Name), p.PaintAction(action, action))
		for _, f := range r.Fields {
			b.WriteString(p.fieldLines(f))
		}
	}
	return p.Print(b.String())
}

// fieldLines shows short values on one line, and long ones, such as whole resources, as YAML.
func (p program) fieldLines(f fieldDiff) string {
	before, after := inline(f.Before), inline(f.After)
	if f.Path != "" && before != "" && after != "" {
		return fmt.Sprintf("  %s: %s -> %s\n", f.Path, p.Paint(terminal.Red, before), p.Paint(terminal.Green, after))
	}
	var b strings.Builder
	if f.Path != "" {
		fmt.Fprintf(&b, "  %s:\n", f.Path)
	}
	for _, side := range []struct {
		sign  string
		value json.RawMessage
		style terminal.Style
	}{{"-", f.Before, terminal.Red}, {"+", f.After, terminal.Green}} {
		if side.value == nil {
			continue
		}
		text, err := kinds.YAML(side.value)
		if err != nil {
			text = []byte(string(side.value) + "\n")
		}
		for line := range strings.Lines(string(text)) {
			fmt.Fprintf(&b, "  %s\n", p.Paint(side.style, side.sign+" "+strings.TrimSuffix(line, "\n")))
		}
	}
	return b.String()
}

// maxInline is the longest value to show on the line of its path.
const maxInline = 60

// inline formats a scalar or a short JSON value on one line; "" for others and for none.
func inline(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil && text != "" && !strings.ContainsAny(text, "\n\t") {
		return text
	}
	if len(value) > maxInline {
		return ""
	}
	return string(value)
}
