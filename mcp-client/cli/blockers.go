package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

func (p *session) blockersCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "blockers",
		Short: "List sessions of the database that keep changes waiting, and end them",
		Long: `List sessions of the database that keep changes waiting.

Whoever may use the database can lock something in a transaction and leave it open, and whoever needs the same waits. A session is listed
because of a lock, because notifications pile up in the queue and its transaction may be why, or because its transaction has been idle for a
quarter of an hour, which holds back vacuum. A "-" stands for what the database does not tell of sessions of other roles: grant the owner of the
mesh pg_read_all_stats to see it.

It takes the scope admin.`,
		Example: `  mcp-client blockers
  mcp-client blockers end 4711`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.listBlockers(cmd.Context()) },
	}
	cmd.AddCommand(p.endBlockerCommand())
	return cmd
}

func (p *session) endBlockerCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "end PID...",
		Short: "End sessions of the database that keep changes waiting",
		Long: `End sessions of the database that keep changes waiting, by their pids: what they have not committed is undone. One that is not listed now, and
one of a server that is at work, is left alone. The owner of the mesh needs to be a member of the role of the session, or of pg_signal_backend.`,
		Example: `  mcp-client blockers end 4711`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			pids := make([]int32, len(args))
			for i, text := range args {
				pid, err := strconv.ParseInt(text, 10, 32)
				if err != nil {
					return usage(cmd, fmt.Errorf("%q is no pid: mcp-client blockers lists them", text))
				}
				pids[i] = int32(pid)
			}
			return p.endBlockers(cmd.Context(), pids)
		},
	}
}

func (p *session) endBlockers(ctx context.Context, pids []int32) error {
	var failed failuresError
	for _, pid := range pids {
		_, err := callMembers(ctx, p, adminv1.NewBlockerServiceClient, adminv1.BlockerServiceClient.EndBlocker, &adminv1.EndBlockerRequest{Pid: pid})
		if err == nil {
			err = p.printf("ended %d\n", pid)
		}
		if err != nil {
			failed = append(failed, err)
		}
	}
	if len(failed) > 0 {
		return failed
	}
	return nil
}

// blocker is the printed form of a session.
type blocker struct {
	PID         int32      `json:"pid"`
	Reason      string     `json:"reason"`
	Role        string     `json:"role,omitempty"`
	Database    string     `json:"database,omitempty"`
	Application string     `json:"application,omitempty"`
	Client      string     `json:"client,omitempty"`
	State       string     `json:"state,omitempty"`
	Since       *time.Time `json:"since,omitempty"`
	Waiting     *time.Time `json:"waitingSince,omitempty"`
	Blocks      []int32    `json:"blocks,omitempty"`
	Query       string     `json:"query,omitempty"`
	Server      bool       `json:"server"`
}

func (p *session) listBlockers(ctx context.Context) error {
	resp, err := callMembers(ctx, p, adminv1.NewBlockerServiceClient, adminv1.BlockerServiceClient.ListBlockers, &adminv1.ListBlockersRequest{})
	if err != nil {
		return err
	}
	list := []blocker{}
	for _, b := range resp.GetBlockers() {
		list = append(list, blocker{
			b.GetPid(), b.GetReason(), b.GetRole(), b.GetDatabase(), b.GetApplication(), b.GetClient(), b.GetState(), timeOf(b.GetSince()), timeOf(b.GetWaitingSince()),
			b.GetBlocks(), b.GetQuery(), b.GetServer(),
		})
	}
	out := listing{tree: list, columns: []string{"PID", "REASON", "ROLE", "APPLICATION", "STATE", "SINCE", "WAITING"}, wide: []string{"CLIENT", "DATABASE", "SERVER", "QUERY"}}
	for _, b := range list {
		pid := strconv.Itoa(int(b.PID))
		out.add(pid, pid, b.Reason, orDash(quoted(b.Role)), orDash(quoted(b.Application)), orDash(b.State), shortly(b.Since), strconv.Itoa(len(b.Blocks)),
			orDash(b.Client), orDash(quoted(b.Database)), strconv.FormatBool(b.Server), orDash(quoted(b.Query)))
	}
	return p.printListing(out)
}

// quoted escapes control characters in text from elsewhere, so that it cannot control the terminal.
func quoted(text string) string {
	q := strconv.Quote(text)
	return q[1 : len(q)-1]
}
