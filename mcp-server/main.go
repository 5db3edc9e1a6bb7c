// Mcp-server serves a mesh's configuration from Postgres over MCP, Istio's Mesh Configuration Protocol.
package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/internal/program"
	"github.com/pgmesh/pgmesh/mcp-server/serve"
	"github.com/pgmesh/pgmesh/store"
)

func main() {
	root := program.New("mcp-server", "Serve a mesh's configuration from Postgres over MCP, Istio's Mesh Configuration Protocol")
	root.AddCommand(runCommand(), migrateCommand())
	os.Exit(program.Main(root))
}

func runCommand() *cobra.Command {
	var o serve.Options
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Serve until told to stop",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Log = program.Log(cmd)
			return serve.Run(cmd.Context(), o, nil)
		},
	}
	f := cmd.Flags()
	databaseFlag(cmd, &o.Database)
	f.BoolVar(&o.Migrate, "migrate", false, "bring the database's schema up to date first")
	f.DurationVar(&o.Poll, "poll", 5*time.Second, "how long a lost notification of Postgres may go unnoticed")
	f.StringVar(&o.Listen, "listen", "127.0.0.1:15020", "address to serve MCP and the admin API on")
	f.StringVar(&o.HTTP, "http", "127.0.0.1:15021", "address to serve /healthz, /readyz and /metrics on")
	o.Plaintext.Flags(f)
	return cmd
}

func databaseFlag(cmd *cobra.Command, into *string) {
	cmd.Flags().StringVar(into, "database", "", "URL of the Postgres database that holds the mesh: postgres://user:password@host:port/name")
}

func migrateCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "migrate", Short: "Bring the database's schema to a version, or tell which it has"}
	var database string
	up := &cobra.Command{
		Use: "up", Short: "Bring the schema to the newest version", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return store.Migrate(cmd.Context(), database) },
	}
	down := &cobra.Command{
		Use: "down VERSION", Short: "Bring the schema back to a version; 0 removes it, with everything in it", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			version, err := strconv.ParseInt(args[0], 10, 64)
			if err != nil || version < 0 {
				return fmt.Errorf("%q is not a version: mcp-server migrate status lists them", args[0])
			}
			return store.MigrateDown(cmd.Context(), database, version)
		},
	}
	status := &cobra.Command{
		Use: "status", Short: "List the versions, and when each came into force", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return printStatus(cmd, database) },
	}
	for _, c := range []*cobra.Command{up, down, status} {
		databaseFlag(c, &database)
		c.PreRunE = func(*cobra.Command, []string) error {
			if database == "" {
				return errors.New("--database is missing: the URL of the Postgres database that holds the mesh")
			}
			return nil
		}
	}
	cmd.AddCommand(up, down, status)
	return cmd
}

func printStatus(cmd *cobra.Command, database string) error {
	migrations, err := store.MigrationStatus(cmd.Context(), database)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "VERSION\tNAME\tAPPLIED")
	for _, m := range migrations {
		applied := "no"
		if !m.Applied.IsZero() {
			applied = m.Applied.Format(time.RFC3339)
		}
		fmt.Fprintf(w, "%d\t%s\t%s\n", m.Version, m.Name, applied)
	}
	return w.Flush()
}
