// Package rollout has the commands that say how far revisions have come on their way to the proxies.
package rollout

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/mcp-client/cli/arguments"
	"github.com/pgmesh/pgmesh/mcp-client/cli/connect"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// program is a run of mcp-client, with the commands of this package.
type program struct{ *session.Session }

// Command returns the command rollout.
func Command(s *session.Session) *cobra.Command {
	p := program{s}
	cmd := &cobra.Command{
		Use:   "rollout",
		Short: "Ask how far changes have come on their way to the proxies",
		Long: `Ask how far changes have come on their way to the proxies, by what discoveries report to mcp-server. It takes the scope read of the
namespaces, and counts the proxies that are in them.

  CONCERNED  proxies that the revision has something new for; the rest is of them
  RAN        they run it, or something newer
  REFUSED    they refuse some of it
  TO ANSWER  they have not answered yet
  AWAY       they left before they ran it
  FIRST, HALF and LAST are how long after the commit the first of them ran it, half of them, and the last`,
	}
	cmd.AddCommand(p.statusCommand(), p.watchCommand(), p.historyCommand())
	return arguments.Family(cmd)
}

func (p program) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status [REVISION]",
		Short: "Tell how far a revision has come, the newest if none is named",
		Long: `Tell how far a revision has come, the newest if none is named: in all, by discovery and by namespace, and what proxies refuse.

The exit code is 7 if proxies refuse some of it, and 8 if some have not answered yet.`,
		Example: `  mcp-client rollout status
  mcp-client rollout status 2 -o json`,
		Args: ofRevisions(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			revision := int64(0)
			if len(args) > 0 {
				var err error
				if revision, err = revisionOf(args[0]); err != nil {
					return failure.Usage(cmd, err)
				}
			}
			return p.status(cmd.Context(), revision)
		},
	}
}

func (p program) historyCommand() *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:   "history",
		Short: "List how far the latest revisions have come, the newest first",
		Example: `  mcp-client rollout history
  mcp-client rollout history -n shop --limit 5
  mcp-client rollout history -o jsonpath='{range [?(@.refused>0)]}{.revision}{"\n"}{end}'`,
		Args: ofRevisions(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 || limit > maxLimit {
				return failure.Usage(cmd, fmt.Errorf("--limit %d: give a number from 1 to %d", limit, maxLimit))
			}
			return p.history(cmd.Context(), limit)
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 20, "at most so many revisions")
	return cmd
}

const maxLimit = 1000

// ofRevisions says of a resource among the arguments that a rollout is of a revision, and how to find the resource's.
func ofRevisions(others cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if r, named := arguments.ResourceAmong(args); named {
			return fmt.Errorf("rollouts are of revisions, and %s is a resource: mcp-client history %s %s lists its revisions, and mcp-client rollout status REVISION tells how far one has come",
				r, r.Kind, r.Name)
		}
		return others(cmd, args)
	}
}

func (p program) watchCommand() *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Print how far changes have come, as it changes",
		Long: `Print how far the newest revision has come, and then each revision whenever that changes, until interrupted. For programs there is
-o json, a line for each.`,
		Example: `  mcp-client rollout watch --count 1
  mcp-client rollout watch -n shop --count 1 -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f := p.Output.Format; f == output.YAML || f == output.CustomColumns || f == output.Name {
				return failure.Usage(cmd, fmt.Errorf("rollout watch has no -o %s; it has json, and jsonpath=TEMPLATE or go-template=TEMPLATE picks from each line", f))
			}
			return p.watch(cmd.Context(), limit)
		},
	}
	cmd.Flags().IntVar(&limit, "count", 0, "end after so many lines; 0 is never")
	return cmd
}

func revisionOf(text string) (int64, error) {
	revision, err := strconv.ParseInt(text, 10, 64)
	if err != nil || revision < 1 {
		return 0, fmt.Errorf("%q is no revision: write a number from 1, as mcp-client history lists them", text)
	}
	return revision, nil
}

func (p program) list(ctx context.Context, req *adminv1.ListRolloutsRequest) ([]rollout, error) {
	req.Namespaces = p.Namespace.Requested()
	resp, err := session.Call(ctx, p.Session, adminv1.NewProxyServiceClient, adminv1.ProxyServiceClient.ListRollouts, req)
	if err != nil {
		return nil, err
	}
	list := []rollout{}
	for _, sent := range resp.GetRollouts() {
		list = append(list, rolloutOf(sent))
	}
	return list, nil
}

func (p program) history(ctx context.Context, limit int) error {
	list, err := p.list(ctx, &adminv1.ListRolloutsRequest{Limit: int32(min(limit+1, maxLimit))})
	if err != nil {
		return err
	}
	if len(list) > limit {
		list = list[:limit]
		fmt.Fprintf(p.Err, "there are older ones; --limit %d shows more\n", min(10*limit, maxLimit))
	}
	if len(list) == 0 && p.Output.IsTable() {
		fmt.Fprintf(p.Err, "the server at %s knows of no rollout of the last hour\n", p.Server.Address)
		return nil
	}
	out := output.Listing{Tree: list, Columns: append([]string{"REVISION", "COMMITTED", "AUTHOR"}, columns...)}
	for _, r := range list {
		out.Add(fmt.Sprint(r.Revision), append([]string{fmt.Sprint(r.Revision), words.ShortTime(r.Committed), words.OrDash(r.Author)}, p.cells(r.numbers, r.Committed)...)...)
	}
	return p.PrintListing(out)
}

func (p program) watch(ctx context.Context, limit int) error {
	printed := 0
	if p.Output.IsTable() {
		w := output.NewRows(p.Out)
		w.Row(append([]string{"REVISION"}, columns...)...)
		if err := w.Flush(); err != nil {
			return err
		}
	}
	req := &adminv1.WatchRolloutsRequest{Namespaces: p.Namespace.Requested(), Limit: 1}
	err := connect.Each(ctx, &p.Server, adminv1.NewProxyServiceClient, adminv1.ProxyServiceClient.WatchRollouts, req, func(answer *adminv1.WatchRolloutsResponse) error {
		for _, sent := range answer.GetRollouts() {
			if err := p.printLine(rolloutOf(sent)); err != nil {
				return err
			}
			if printed++; printed == limit {
				return connect.ErrEnough
			}
		}
		return nil
	})
	if errors.Is(err, connect.ErrEnough) {
		return nil
	}
	return err
}
