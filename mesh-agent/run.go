package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/pgmesh/pgmesh/internal/monitor"
	"github.com/pgmesh/pgmesh/internal/program"
	"github.com/pgmesh/pgmesh/mesh-agent/relay"
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
	cmd, _ := newRun()
	return cmd
}

// newRun is the command, and the file that it is configured by.
func newRun() (*cobra.Command, *configFlag) {
	var m member
	var f envoyFlags
	var s scrapeFlags
	var c configFlag
	m.registration.file = &c
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run Envoy as this machine's proxy",
		Long:  runHelp,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			about := status.New()
			about.Settings = func() []settings.Setting { return settings.List(cmd.Flags()) }
			m.flags, m.state.named = cmd.Flags(), cmd.Flags().Changed("state-dir")
			about.Log = program.LogTo(cmd, io.MultiWriter(os.Stderr, about.Lines.Writer(status.FromAgent)))
			return run(cmd.Context(), &m, &f, &s, about, about.Log)
		},
	}
	m.declare(cmd.Flags())
	m.sts.declare(cmd.Flags())
	f.declare(cmd.Flags())
	s.declare(cmd.Flags())
	c.declare(cmd)
	return cmd, &c
}

func run(ctx context.Context, m *member, f *envoyFlags, s *scrapeFlags, about *status.Server, log *slog.Logger) error {
	reloads := newReloads()
	release, err := m.state.take(m.insecure)
	if err != nil {
		return err
	}
	defer release()
	registry := monitor.NewRegistry()
	metrics := prometheus.WrapRegistererWithPrefix("pgmesh_mesh_agent_", registry)
	who, err := m.machine(ctx, log, metrics)
	if err != nil {
		f.endLeft(ctx, m, about, log)
		return err
	}
	discovery, err := m.connect(who, log, metrics)
	if err != nil {
		return err
	}
	defer discovery.Close()
	supervisor, err := m.prepare(ctx, f, who, discovery, reloads, about, log)
	if err != nil {
		return err
	}
	beside, err := m.beside(who, f.status, log, metrics)
	if err != nil {
		return err
	}
	about.Parts = status.Parts{Identity: who.status, Discovery: discoveryStatus(discovery), DNS: beside.names.status(), Envoy: supervisor.Status}
	redirected, err := m.redirection(ctx, f.status, supervisor.Ask, about, log)
	if err != nil {
		return err
	}
	registered, err := m.registering(who, discovery, about, log, metrics)
	if err != nil {
		return err
	}
	ctx, about.Stop = context.WithCancel(ctx)
	defer about.Stop()
	if err := s.open(about, m.state.folder, supervisor, registry, metrics); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	context.AfterFunc(ctx, func() { about.State(status.Ending) })
	lasting, end := context.WithCancel(context.WithoutCancel(ctx)) // Envoy needs its certificate until it has drained
	defer end()
	served, err := m.serveEnvoy(lasting, who, relay.Options{Discovery: discovery, Names: beside.names.take(), Log: log, Metrics: metrics}, &about.Parts)
	if err != nil {
		return err
	}
	group.Go(served)
	group.Go(func() error { beside.run(ctx, lasting); return nil })
	if err := answer(lasting, group, about, beside.status); err != nil {
		return err
	}
	staying := redirected.during(stay(ctx, lasting, group, registered, log), group)
	group.Go(func() error { defer end(); defer redirected.close(lasting); return supervisor.Run(staying) })
	group.Go(func() error { return heed(ctx, reloads, supervisor) })
	group.Go(func() error { return m.awaitMesh(ctx, who, discovery, supervisor, log) })
	if err := group.Wait(); err != nil {
		return fmt.Errorf("run Envoy: %w", err)
	}
	return nil
}

// answer answers who asks for the status: people over the agent's socket, and machines over the status port. Who follows the end wants to hear
// all of it.
func answer(lasting context.Context, group *errgroup.Group, about *status.Server, port net.Listener) error {
	socket, err := about.Open()
	if err != nil {
		return err
	}
	group.Go(func() error { return about.Serve(lasting, socket) })
	if port != nil {
		group.Go(func() error { return about.ServePort(lasting, port) })
	}
	return nil
}
