package history

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/mcp-client/cli/change"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// Confirm returns the command confirm.
func Confirm(s *session.Session) *cobra.Command {
	p := program{s}
	var list bool
	cmd := &cobra.Command{
		Use:   "confirm [REVISION | --list]",
		Short: "Make a change stay that would go away by itself",
		Long: `Make a change stay that was made with --confirm-within, and would go away by itself. Without a REVISION it is the only one that waits.

--list lists the changes that wait, and what became of others.`,
		Example: `  mcp-client apply -f reviews.yaml --confirm-within 5m
  mcp-client confirm
  mcp-client confirm --list`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if list {
				return p.confirmations(cmd.Context())
			}
			req := &adminv1.ConfirmRequest{Author: change.Author()}
			if len(args) > 0 {
				var err error
				if req.Revision, err = parseRevision(args[0]); err != nil {
					return failure.Usage(cmd, err)
				}
			}
			return p.confirm(cmd.Context(), req)
		},
	}
	cmd.Flags().BoolVar(&list, "list", false, "list changes that wait, and what became of others")
	return cmd
}

func (p program) confirm(ctx context.Context, req *adminv1.ConfirmRequest) error {
	resp, err := session.Change(ctx, p.Session, adminv1.AdminServiceClient.Confirm, req)
	if err != nil {
		return err
	}
	if p.Output.IsTree() {
		return p.PrintTree(map[string]int64{"revision": resp.GetRevision()})
	}
	_, err = fmt.Fprintf(p.Out, "revision %d confirmed\n", resp.GetRevision())
	return err
}

// confirmation is the printed form of a change that waits, or waited, to be confirmed.
type confirmation struct {
	Revision   int64      `json:"revision"`
	State      string     `json:"state"`
	Author     string     `json:"author,omitempty"`
	Message    string     `json:"message,omitempty"`
	Deadline   time.Time  `json:"deadline"`
	EndedAt    *time.Time `json:"endedAt,omitempty"`
	EndedBy    string     `json:"endedBy,omitempty"`
	RevertedBy int64      `json:"revertedBy,omitempty"`
}

func (p program) confirmations(ctx context.Context) error {
	resp, err := session.Ask(ctx, p.Session, adminv1.AdminServiceClient.Confirmations, &adminv1.ConfirmationsRequest{})
	if err != nil {
		return err
	}
	list := []confirmation{}
	for _, c := range resp.GetConfirmations() {
		list = append(list, confirmation{
			c.GetRevision(), c.GetState(), c.GetAuthor(), c.GetMessage(), c.GetDeadline().AsTime(), output.TimeOf(c.GetEndedAt()), c.GetEndedBy(), c.GetRevertedBy(),
		})
	}
	switch {
	case p.Output.IsTree():
		return p.PrintTree(list)
	case len(list) == 0:
		fmt.Fprintln(p.Err, "no change waits to be confirmed")
		return nil
	}
	w := output.NewRows(p.Out)
	w.Row("REVISION", "STATE", "DEADLINE", "AUTHOR", "MESSAGE")
	for _, c := range list {
		w.Row(fmt.Sprint(c.Revision), c.State, words.LocalTime(c.Deadline), words.OrDash(c.Author), words.FirstLine(c.Message))
	}
	return w.Flush()
}
