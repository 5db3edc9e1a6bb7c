package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/pgmesh/pgmesh/internal/monitor"
	"github.com/pgmesh/pgmesh/internal/program"
	"github.com/pgmesh/pgmesh/mesh-agent/relay"
	"github.com/pgmesh/pgmesh/mesh-agent/status"
	"github.com/pgmesh/pgmesh/mesh-agent/supervise"
)

const runHelp = `Run Envoy as this machine's proxy, until SIGTERM or SIGINT.

The machine is who mesh-agent join has made it, or, if it is no member yet, becomes that with --token-file. Its certificate is renewed in
time, and its Envoy speaks mutual TLS with discovery and the other members.

On a signal Envoy drains: it tells clients to go elsewhere, and ends when no connection is left, or after --drain-time.
A second signal ends it at once. An Envoy that dies is started again.

Exit code 0: ended as asked. 1: wrong flags, Envoy could not start, or it had to be killed at the end.`

// envoyFlags is what the flags say about the Envoy to run.
type envoyFlags struct {
	program            string
	concurrency        int
	logLevel           string
	componentLogLevels string
	drain              time.Duration
	listenerDrain      time.Duration
	status             string
}

func (f *envoyFlags) declare(flags *pflag.FlagSet) {
	flags.StringVar(&f.program, "envoy", "envoy", "the Envoy to run: a path, or a name to find in PATH")
	flags.IntVar(&f.concurrency, "concurrency", 2, "number of Envoy's worker threads, 0: one a CPU")
	flags.StringVar(&f.logLevel, "envoy-log-level", "warning", "Envoy's log level: trace, debug, info, warning, error, critical or off")
	// Envoy's "misc" warns of deprecated fields at every update, which nobody on the machine can do anything about.
	flags.StringVar(&f.componentLogLevels, "envoy-component-log-level", "misc:error", "log levels of Envoy's components: upstream:debug,config:trace")
	flags.DurationVar(&f.drain, "drain-time", 5*time.Second, "how long open connections may take to finish at the end")
	flags.DurationVar(&f.listenerDrain, "listener-drain-time", 45*time.Second,
		"how long connections may go on over a listener that a change of the mesh has replaced")
	flags.StringVar(&f.status, "status", "127.0.0.1:15026", "address of /healthz/ready, /healthz/live and /metrics, empty for none")
}

func (f *envoyFlags) args() []string {
	args := []string{"--log-level", f.logLevel, "--drain-time-s", strconv.Itoa(int(f.listenerDrain.Seconds()))}
	if f.concurrency > 0 {
		args = append(args, "--concurrency", strconv.Itoa(f.concurrency))
	}
	if f.componentLogLevels != "" {
		args = append(args, "--component-log-level", f.componentLogLevels)
	}
	return args
}

// supervisor keeps Envoy running, by a bootstrap.
func (f *envoyFlags) supervisor(bootstrap []byte, about *status.Server, log *slog.Logger) *supervise.Supervisor {
	return supervise.New(supervise.Options{
		Envoy:     f.program,
		Bootstrap: bootstrap,
		Args:      f.args(),
		Drain:     f.drain,
		Output:    io.MultiWriter(os.Stderr, about.Lines.Writer(status.FromEnvoy)),
		Stdout:    io.MultiWriter(os.Stdout, about.Lines.Writer(status.FromAccess)),
		Log:       log,
	})
}

func runCommand() *cobra.Command {
	cmd, _ := newRun()
	return cmd
}

// newRun is the command, and the file that it is configured by.
func newRun() (*cobra.Command, *configFlag) {
	var m member
	var f envoyFlags
	var c configFlag
	m.registration.file = &c
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run Envoy as this machine's proxy",
		Long:  runHelp,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			about := status.New(m.state.folder)
			m.state.named = cmd.Flags().Changed("state-dir")
			return run(cmd.Context(), &m, &f, about, program.LogTo(cmd, io.MultiWriter(os.Stderr, about.Lines.Writer(status.FromAgent))))
		},
	}
	m.declare(cmd.Flags())
	f.declare(cmd.Flags())
	c.declare(cmd)
	return cmd, &c
}

func run(ctx context.Context, m *member, f *envoyFlags, about *status.Server, log *slog.Logger) error {
	release, err := m.state.take(m.insecure)
	if err != nil {
		return err
	}
	defer release()
	about.StateDir = m.state.folder
	registry := monitor.NewRegistry()
	metrics := prometheus.WrapRegistererWithPrefix("pgmesh_mesh_agent_", registry)
	who, err := m.machine(ctx, log, metrics)
	if err != nil {
		return err
	}
	data, err := m.bootstrap(who)
	if err != nil {
		return err
	}
	supervisor := f.supervisor(data, about, log)
	names, err := m.resolver(who, log, metrics)
	if err != nil {
		return err
	}
	listener, err := listenStatus(f.status, log)
	if err != nil {
		return err
	}

	discovery, err := m.connect(who, log, metrics)
	if err != nil {
		return err
	}
	defer discovery.Close()
	about.Parts = status.Parts{Identity: who.status, Discovery: discoveryStatus(discovery), DNS: names.status()}
	registered, err := m.registering(who, discovery, about, log, metrics)
	if err != nil {
		return err
	}

	group, ctx := errgroup.WithContext(ctx)
	context.AfterFunc(ctx, func() { about.State(status.Ending) })
	lasting, end := context.WithCancel(context.WithoutCancel(ctx)) // Envoy needs its certificate until it has drained
	defer end()
	served, err := m.serveEnvoy(lasting, who, relay.Options{Discovery: discovery, Names: names.take(), Log: log, Metrics: metrics})
	if err != nil {
		return err
	}
	group.Go(served)
	group.Go(func() error { return names.run(ctx, lasting) })
	socket, err := about.Open()
	if err != nil {
		return err
	}
	group.Go(func() error { return about.Serve(lasting, socket) }) // who follows the end wants to hear all of it
	staying := stay(ctx, lasting, group, registered, log)
	group.Go(func() error { defer end(); return supervisor.Run(staying) })
	group.Go(func() error { return serveStatus(ctx, listener, supervisor.Ready, registry) })
	if err := group.Wait(); err != nil {
		return fmt.Errorf("run Envoy: %w", err)
	}
	return nil
}
