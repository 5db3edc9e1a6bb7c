package history

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/arguments"
	"github.com/pgmesh/pgmesh/mcp-client/cli/connect"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// Blame returns the command blame.
func Blame(s *session.Session) *cobra.Command {
	p := program{s}
	return &cobra.Command{
		Use:   "blame (KIND NAME | KIND/NAME)",
		Short: "Tell of each field of a resource who set it, when and why",
		Long: `Tell of each field of a resource which revision set it to what it is: who did, when and why. -o wide has the messages too.

What was set before the history that is kept has no revision.`,
		Example: `  mcp-client blame vs/reviews
  mcp-client blame vs reviews -o wide`,
		ValidArgsFunction: p.CompleteResources,
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := p.oneKey(args)
			if err != nil {
				return failure.Usage(cmd, err)
			}
			return p.blame(cmd.Context(), key)
		},
	}
}

// oneKey returns the key of the single resource that the arguments name.
func (p program) oneKey(args []string) (kinds.Key, error) {
	query, err := arguments.Parse(args)
	if err != nil {
		return kinds.Key{}, err
	}
	if len(query) != 1 || query[0].Name == "" || p.Namespace.All && query[0].Namespace == "" {
		return kinds.Key{}, errors.New("name one resource, such as vs/reviews")
	}
	return query[0].In(p.Namespace), nil
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

func (p program) blame(ctx context.Context, key kinds.Key) error {
	resp, err := session.Ask(ctx, p.Session, adminv1.AdminServiceClient.Blame, &adminv1.BlameRequest{Resource: connect.RefOf(key)})
	if err != nil {
		return err
	}
	fields := []blamed{}
	for _, f := range resp.GetFields() {
		fields = append(fields, blamed{
			f.GetPath(), output.ValueJSON(f.GetValue()), f.GetRevision(), output.TimeOf(f.GetTime()), f.GetAuthor(), f.GetApplication(), f.GetMessage(),
		})
	}
	if p.Output.IsTree() {
		return p.PrintTree(fields)
	}
	w := output.NewRows(p.Out)
	titles := []string{"REVISION", "TIME", "AUTHOR", "FIELD", "VALUE"}
	if p.Output.Format == output.Wide {
		titles = append(titles, "MESSAGE")
	}
	w.Row(titles...)
	for _, f := range fields {
		when := "-"
		if f.Time != nil {
			when = words.LocalTime(*f.Time)
		}
		row := []string{words.Revision(f.Revision), when, words.OrDash(f.Author), f.Path, output.CellText([]byte(valueText(f.Value)))}
		if p.Output.Format == output.Wide {
			row = append(row, words.FirstLine(f.Message))
		}
		w.Row(row...)
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
