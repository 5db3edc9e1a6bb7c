package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pgmesh/pgmesh/internal/kit/terminal"
	"github.com/pgmesh/pgmesh/kinds"
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

// operations maps operations to the words of the tables.
var operations = map[string]string{"create": "created", "update": "changed", "delete": "deleted"}

func (p *session) diffRevisions(cmd *cobra.Command, args []string, only scope) error {
	req := &adminv1.DiffRequest{Namespaces: p.namespace.requested()}
	var err error
	if req.Kinds, err = only.requested(); err != nil {
		return err
	}
	from, err := parseMoment(args[0])
	if err != nil {
		return usage(cmd, err)
	}
	req.From = &adminv1.DiffRequest_FromRevision{FromRevision: from.revision}
	if !from.time.IsZero() {
		req.From = &adminv1.DiffRequest_FromTime{FromTime: timestamppb.New(from.time)}
	}
	if len(args) > 1 {
		to, err := parseMoment(args[1])
		if err != nil {
			return usage(cmd, err)
		}
		req.To = &adminv1.DiffRequest_ToRevision{ToRevision: to.revision}
		if !to.time.IsZero() {
			req.To = &adminv1.DiffRequest_ToTime{ToTime: timestamppb.New(to.time)}
		}
	}
	found, err := p.revisionDiff(cmd.Context(), req)
	if err != nil {
		return err
	}
	if err := p.printRevisionDiff(found); err != nil || len(found.Resources) == 0 {
		return err
	}
	return errDifferent
}

// kindWords returns unambiguous names of kinds.
func kindWords(ks []*kinds.Kind) []string {
	var words []string
	for _, k := range ks {
		words = append(words, k.Plural+"."+k.Group)
	}
	return words
}

func (p *session) revisionDiff(ctx context.Context, req *adminv1.DiffRequest) (*revisionDifference, error) {
	notice := p.notice("asking " + p.server.address)
	defer notice.end()
	found := &revisionDifference{Resources: []resourceDiff{}}
	err := each(ctx, &p.server, adminv1.AdminServiceClient.Diff, req, func(answer *adminv1.DiffResponse) error {
		notice.count(0)
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
		d.Fields = append(d.Fields, fieldDiff{f.GetPath(), valueJSON(f.GetBefore()), valueJSON(f.GetAfter())})
	}
	return d
}

// valueJSON returns nil for no value.
func valueJSON(v *structpb.Value) json.RawMessage {
	if v == nil {
		return nil
	}
	spaced, err := protojson.Marshal(v)
	var text bytes.Buffer
	if err != nil || json.Compact(&text, spaced) != nil {
		return nil // NaN or infinite, which cannot happen: the server's values come from JSON
	}
	return text.Bytes()
}

func (p *session) printRevisionDiff(d *revisionDifference) error {
	if p.output.isTree() {
		return p.printTree(d)
	}
	var b strings.Builder
	if p.output.isTable() {
		fmt.Fprintln(&b, p.paint(terminal.Bold, fmt.Sprintf("revision %d to %d", d.From, d.To)))
	}
	for _, r := range d.Resources {
		if p.output.format == nameFormat {
			fmt.Fprintln(&b, referenceOf(r.Group, r.Kind, r.Space, r.Name))
			continue
		}
		action := operations[r.Operation]
		fmt.Fprintf(&b, "%s %s\n", titleOf(r.Group, r.Kind, r.Space, r.Name), p.paintAction(action, action))
		for _, f := range r.Fields {
			b.WriteString(p.fieldLines(f))
		}
	}
	return p.print(b.String())
}

// titleOf names a resource for people, even one of an unknown kind.
func titleOf(group, kind, namespace, name string) string {
	k, known := kinds.Lookup(group, kind)
	key := kinds.Key{Kind: k, Namespace: namespace, Name: name}
	if !known {
		return kind + "." + group + " " + key.FullName()
	}
	return word(k) + " " + key.FullName()
}

func referenceOf(group, kind, namespace, name string) string {
	k, known := kinds.Lookup(group, kind)
	key := kinds.Key{Kind: k, Namespace: namespace, Name: name}
	if !known {
		return strings.ToLower(kind) + "." + group + "/" + key.FullName()
	}
	return reference(key)
}

// fieldLines shows short values on one line, and long ones, such as whole resources, as YAML.
func (p *session) fieldLines(f fieldDiff) string {
	before, after := inline(f.Before), inline(f.After)
	if f.Path != "" && before != "" && after != "" {
		return fmt.Sprintf("  %s: %s -> %s\n", f.Path, p.paint(terminal.Red, before), p.paint(terminal.Green, after))
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
			fmt.Fprintf(&b, "  %s\n", p.paint(side.style, side.sign+" "+strings.TrimSuffix(line, "\n")))
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
