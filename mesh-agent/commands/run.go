package commands

import (
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/internal/program"
	"github.com/pgmesh/pgmesh/mesh-agent/envoy/envoylog"
	"github.com/pgmesh/pgmesh/mesh-agent/run"
	"github.com/pgmesh/pgmesh/mesh-agent/settings"
	"github.com/pgmesh/pgmesh/mesh-agent/status"
)

const runHelp = `Run Envoy as this machine's proxy, until SIGTERM or SIGINT.

The machine is who mesh-agent join has made it, or, if it is no member yet, becomes that with --token-file. Its certificate is renewed in
time, and its Envoy speaks mutual TLS with discovery and the other members.

On a signal Envoy drains: it tells clients to go elsewhere, and ends when no connection is left, or after --drain-time.
A second signal ends it at once. An Envoy that dies is started again. An agent that is killed leaves its Envoy to the next one with the same
--state-dir, which takes it over as it is, or has another take its place if its flags ask for another. On SIGHUP the agent starts anew within its
process, as the program is on disk then.

Exit code 0: ended as asked. 1: wrong flags, Envoy could not start, or it had to be killed at the end.`

func runCommand() *cobra.Command {
	var o run.Options
	cmd, _ := newRun(&o)
	return cmd
}

// newRun returns the command, which sets options, and its configuration file.
func newRun(o *run.Options) (*cobra.Command, *configFlag) {
	c := configFlag{machine: &o.Machine}
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run Envoy as this machine's proxy",
		Long:  runHelp,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			server := status.New()
			server.Settings = func() []settings.Setting { return settings.List(cmd.Flags()) }
			server.Log = program.LogTo(cmd, io.MultiWriter(os.Stderr, server.Lines.Writer(status.FromAgent)))
			if program.LogsJSON(cmd) && !cmd.Flags().Changed("envoy-log-format") {
				o.EnvoyLog = envoylog.Formed(program.JSONLines(os.Stderr, slog.LevelDebug)) // Envoy has a level of its own
			}
			return run.Run(cmd.Context(), o, server)
		},
	}
	o.Flags(cmd.Flags())
	c.declare(cmd)
	return cmd, &c
}
