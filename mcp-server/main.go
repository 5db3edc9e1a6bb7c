// Mcp-server serves a mesh's configuration over MCP, Istio's Mesh Configuration Protocol: from
// Postgres, as a relay of another server, or from registries such as Consul.
package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/internal/program"
	"github.com/pgmesh/pgmesh/mcp-server/registry"
	"github.com/pgmesh/pgmesh/mcp-server/serve"
)

// garbagePercent is the default of GOGC: how much garbage may accumulate, relative to live memory,
// before a collection. Nearly all memory of a server is the mesh, which stays: Go's default of 100
// would double it for the few bytes of garbage that a change makes.
const garbagePercent = 25

// startingPercent is the default until clients are served. A server that reads a large registry makes
// much garbage, and with a quarter it would collect it for half of the time.
const startingPercent = 50

func main() {
	program.CollectGarbage(startingPercent)
	root := program.New("mcp-server", "Serve a mesh's configuration from Postgres over MCP, Istio's Mesh Configuration Protocol")
	root.AddCommand(runCommand(), migrateCommand(), tokenCommand(), secretsCommand(), authorityCommand(), blockersCommand(), checkDatabaseCommand())
	os.Exit(program.Main(root))
}

func runCommand() *cobra.Command {
	var o serve.Options
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Serve until told to stop",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.WorkloadGrace <= 0 {
				return fmt.Errorf("--workload-grace %s: it has to be above 0, such as 60s: machines need some time to reach another discovery", o.WorkloadGrace)
			}
			o.Log = program.Log(cmd)
			o.Ready = func() { program.CollectGarbage(garbagePercent) }
			return serve.Run(cmd.Context(), o, nil)
		},
	}
	f := cmd.Flags()
	databaseFlag(cmd, &o.Database)
	f.StringVar(&o.Replica, "replica", "", "URL of a hot standby of it to read revisions from, if it is not to be the database itself")
	f.BoolVar(&o.Migrate, "migrate", false, "bring the database's schema up to date first")
	f.DurationVar(&o.Poll, "poll", 5*time.Second, "how long a lost notification of Postgres may go unnoticed")
	f.StringVar(&o.StateDir, "state-dir", program.StateFolder("pgmesh"), "folder to keep what is served in, for a start while the database or the upstream is away; \"\" keeps nothing")
	f.StringVar(&o.Listen, "listen", "127.0.0.1:15020", "address to serve MCP and the admin API on")
	f.StringVar(&o.API, "api", "127.0.0.1:15022", "address to serve the admin API on as JSON over HTTP; empty: not at all")
	o.HTTP.Flags(f, "127.0.0.1:15021")
	f.StringVar(&o.Name, "name", "", "what this server is called in the mesh: its identity is spiffe://TRUST-DOMAIN/pgmesh/mcp-server/NAME (default: the name of the host)")
	f.StringSliceVar(&o.Hosts, "host", nil, "name or address that clients dial, for the server's certificate; can be repeated (default: the name of the host, localhost and the addresses of loopback)")
	f.DurationVar(&o.WorkloadGrace, "workload-grace", registry.DefaultGrace, "how long the entry of a machine stays that is gone without a word")
	o.Authority.Flags(f)
	o.Patience.Flags(f)
	o.Sealing.Flags(f)
	o.Plaintext.Flags(f)
	o.Upstream.Flags(f)
	o.Registries.Flags(f)
	o.Announce.Flags(f)
	o.Security.Flags(f)
	o.Legacy.Flags(f)
	o.Readers.ReaderFlags(f)
	o.Traces.Flags(f)
	return cmd
}

// needDatabase declares --database for a command that requires it.
func needDatabase(cmd *cobra.Command, into *string) {
	databaseFlag(cmd, into)
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if *into == "" {
			return errors.New("--database is missing: the URL of the Postgres database that holds the mesh")
		}
		return nil
	}
}

func databaseFlag(cmd *cobra.Command, into *string) {
	cmd.Flags().StringVar(into, "database", "", "URL of the Postgres database that holds the mesh: postgres://user:password@host:port/name")
}
