package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

func (p *session) confirmCommand() *cobra.Command {
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
			req := &adminv1.ConfirmRequest{Author: author()}
			if len(args) > 0 {
				var err error
				if req.Revision, err = parseRevision(args[0]); err != nil {
					return usage(cmd, err)
				}
			}
			return p.confirm(cmd.Context(), req)
		},
	}
	cmd.Flags().BoolVar(&list, "list", false, "list changes that wait, and what became of others")
	return cmd
}

func (p *session) confirm(ctx context.Context, req *adminv1.ConfirmRequest) error {
	resp, err := makeChange(ctx, p, adminv1.AdminServiceClient.Confirm, req)
	if err != nil {
		return err
	}
	if p.output.isTree() {
		return p.printTree(map[string]int64{"revision": resp.GetRevision()})
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

func (p *session) confirmations(ctx context.Context) error {
	resp, err := ask(ctx, p, adminv1.AdminServiceClient.Confirmations, &adminv1.ConfirmationsRequest{})
	if err != nil {
		return err
	}
	list := []confirmation{}
	for _, c := range resp.GetConfirmations() {
		list = append(list, confirmation{
			c.GetRevision(), c.GetState(), c.GetAuthor(), c.GetMessage(), c.GetDeadline().AsTime(), timeOf(c.GetEndedAt()), c.GetEndedBy(), c.GetRevertedBy(),
		})
	}
	switch {
	case p.output.isTree():
		return p.printTree(list)
	case len(list) == 0:
		fmt.Fprintln(p.Err, "no change waits to be confirmed")
		return nil
	}
	w := newRows(p.Out)
	w.row("REVISION", "STATE", "DEADLINE", "AUTHOR", "MESSAGE")
	for _, c := range list {
		w.row(fmt.Sprint(c.Revision), c.State, localTime(c.Deadline), orDash(c.Author), firstLine(c.Message))
	}
	return w.Flush()
}
