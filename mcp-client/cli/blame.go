package cli

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/kinds"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

func (p *session) blameCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "blame (KIND NAME | KIND/NAME)",
		Short: "Tell of each field of a resource who set it, when and why",
		Long: `Tell of each field of a resource which revision set it to what it is: who did, when and why. -o wide has the messages too.

What was set before the history that is kept has no revision.`,
		Example: `  mcp-client blame vs/reviews
  mcp-client blame vs reviews -o wide`,
		ValidArgsFunction: p.completeResources,
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := p.oneKey(args)
			if err != nil {
				return usage(cmd, err)
			}
			return p.blame(cmd.Context(), key)
		},
	}
}

// oneKey returns the key of the single resource that the arguments name.
func (p *session) oneKey(args []string) (kinds.Key, error) {
	query, err := parseWanted(args)
	if err != nil {
		return kinds.Key{}, err
	}
	if len(query) != 1 || query[0].name == "" || p.namespace.all && query[0].namespace == "" {
		return kinds.Key{}, errors.New("name one resource, such as vs/reviews")
	}
	return query[0].in(p.namespace), nil
}

func refOf(k kinds.Key) *adminv1.ResourceRef {
	return &adminv1.ResourceRef{Group: k.Kind.Group, Kind: k.Kind.Name, Namespace: k.Namespace, Name: k.Name}
}

// blamed is the printed form of a field.
type blamed struct {
	Path        string          `json:"path"`
	Value       json.RawMessage `json:"value"`
	Revision    int64           `json:"revision,omitempty"`
	Time        *time.Time      `json:"time,omitempty"`
	Author      string          `json:"author,omitempty"`
	Application string          `json:"application,omitempty"`
	Message     string          `json:"message,omitempty"`
}

func (p *session) blame(ctx context.Context, key kinds.Key) error {
	resp, err := ask(ctx, p, adminv1.AdminServiceClient.Blame, &adminv1.BlameRequest{Resource: refOf(key)})
	if err != nil {
		return err
	}
	fields := []blamed{}
	for _, f := range resp.GetFields() {
		fields = append(fields, blamed{
			f.GetPath(), valueJSON(f.GetValue()), f.GetRevision(), timeOf(f.GetTime()), f.GetAuthor(), f.GetApplication(), f.GetMessage(),
		})
	}
	if p.output.isTree() {
		return p.printTree(fields)
	}
	w := newRows(p.Out)
	titles := []string{"REVISION", "TIME", "AUTHOR", "FIELD", "VALUE"}
	if p.output.format == wide {
		titles = append(titles, "MESSAGE")
	}
	w.row(titles...)
	for _, f := range fields {
		when := "-"
		if f.Time != nil {
			when = localTime(*f.Time)
		}
		row := []string{revisionText(f.Revision), when, orDash(f.Author), f.Path, cellText([]byte(valueText(f.Value)))}
		if p.output.format == wide {
			row = append(row, firstLine(f.Message))
		}
		w.row(row...)
	}
	return w.Flush()
}

// valueText returns a value as text: a string without quotes, anything else as JSON.
func valueText(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil && text != "" {
		return text
	}
	return string(value)
}
