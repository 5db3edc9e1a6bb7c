package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/store"
)

func blockersCommand() *cobra.Command {
	var database string
	var end int32
	cmd := &cobra.Command{
		Use:   "blockers",
		Short: "List the sessions of the database that hold up others, or end one",
		Long: `List the sessions of the database that hold up others, or end one.

A session is in the way that has locked what a change needs, and does not end its transaction; or that listens to notifications, stays in a
transaction, and so keeps their queue from emptying. What such a session does can be seen where the owner of the schema is a member of
pg_read_all_stats, and it can be ended where that is a member of pg_signal_backend, or of the session's own role.`,
		Example: `  mcp-server blockers --database "$DATABASE"
  mcp-server blockers --database "$DATABASE" --end 4711`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withStore(cmd, database, func(s *store.Store) error {
				if end == 0 {
					return listBlockers(cmd, s)
				}
				if err := s.EndBlocker(cmd.Context(), end, ""); err != nil {
					return err
				}
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "ended the session %d\n", end)
				return err
			})
		},
	}
	cmd.Flags().Int32Var(&end, "end", 0, "the process of the session to end, as it is listed")
	needDatabase(cmd, &database)
	return cmd
}

func listBlockers(cmd *cobra.Command, s *store.Store) error {
	list, err := s.Blockers(cmd.Context())
	if err != nil {
		return err
	}
	if len(list) == 0 {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), "nobody is in the way")
		return err
	}
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "PID\tREASON\tROLE\tAPPLICATION\tCLIENT\tSTATE\tSINCE\tWAITING\tQUERY")
	for _, b := range list {
		fmt.Fprintf(w, "%d\t%s\t%q\t%q\t%s\t%s\t%s\t%d\t%q\n", b.PID, b.Reason, b.Role, b.Application, b.Client, b.State, when(b.Since), len(b.Blocks), b.Query)
	}
	return w.Flush()
}
