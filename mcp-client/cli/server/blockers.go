package server

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// Blockers returns the command blockers.
func Blockers(s *session.Session) *cobra.Command {
	p := program{s}
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

func (p program) endBlockerCommand() *cobra.Command {
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
					return failure.Usage(cmd, fmt.Errorf("%q is no pid: mcp-client blockers lists them", text))
				}
				pids[i] = int32(pid)
			}
			return p.endBlockers(cmd.Context(), pids)
		},
	}
}

func (p program) endBlockers(ctx context.Context, pids []int32) error {
	var failed failure.Several
	for _, pid := range pids {
		_, err := session.Call(ctx, p.Session, adminv1.NewBlockerServiceClient, adminv1.BlockerServiceClient.EndBlocker, &adminv1.EndBlockerRequest{Pid: pid})
		if err == nil {
			err = p.Printf("ended %d\n", pid)
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

func (p program) listBlockers(ctx context.Context) error {
	resp, err := session.Call(ctx, p.Session, adminv1.NewBlockerServiceClient, adminv1.BlockerServiceClient.ListBlockers, &adminv1.ListBlockersRequest{})
	if err != nil {
		return err
	}
	list := []blocker{}
	for _, b := range resp.GetBlockers() {
		list = append(list, blocker{
			b.GetPid(), b.GetReason(), b.GetRole(), b.GetDatabase(), b.GetApplication(), b.GetClient(), b.GetState(), output.TimeOf(b.GetSince()), output.TimeOf(b.GetWaitingSince()),
			b.GetBlocks(), b.GetQuery(), b.GetServer(),
		})
	}
	out := output.Listing{Tree: list, Columns: []string{"PID", "REASON", "ROLE", "APPLICATION", "STATE", "SINCE", "WAITING"}, Wide: []string{"CLIENT", "DATABASE", "SERVER", "QUERY"}}
	for _, b := range list {
		pid := strconv.Itoa(int(b.PID))
		out.Add(pid, pid, b.Reason, words.OrDash(words.Escaped(b.Role)), words.OrDash(words.Escaped(b.Application)), words.OrDash(b.State), words.ShortTime(b.Since), strconv.Itoa(len(b.Blocks)),
			words.OrDash(b.Client), words.OrDash(words.Escaped(b.Database)), strconv.FormatBool(b.Server), words.OrDash(words.Escaped(b.Query)))
	}
	return p.PrintListing(out)
}
