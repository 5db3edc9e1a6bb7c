package commands

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/internal/kit/terminal"
	"github.com/pgmesh/pgmesh/internal/program"
	"github.com/pgmesh/pgmesh/mesh-agent/bugreport"
	"github.com/pgmesh/pgmesh/mesh-agent/inspect"
	"github.com/pgmesh/pgmesh/mesh-agent/run"
	"github.com/pgmesh/pgmesh/mesh-agent/status"
)

const bugReportHelp = `Collect what somebody needs who is to find out what is wrong: what the agent says, its settings and last lines, the configuration and the statistics
of Envoy, and how the machine is set up. An agent or an Envoy that does not run is left out.

Keys, tokens, passwords, and the values of headers that prove who somebody is are taken out; access logs are not in it. Names of hosts, services and
accounts are: look through it before you give it away.`

func bugReportCommand() *cobra.Command {
	var l clientFlags
	var file string
	cmd := &cobra.Command{
		Use:     "bug-report",
		Short:   "Collect what somebody needs to find out what is wrong, without secrets",
		Long:    bugReportHelp,
		Example: "  sudo mesh-agent bug-report\n  sudo mesh-agent bug-report -o report.tar.gz\n  ssh box7 sudo mesh-agent bug-report -o - > box7.tar.gz",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options, err := l.reportOptions()
			if err != nil {
				return err
			}
			return writeReport(cmd, file, options)
		},
	}
	l.declare(cmd)
	cmd.Flags().StringVarP(&file, "output", "o", "", "file to write, - for standard output (default: mesh-agent-HOST-TIME.tar.gz in this folder)")
	return cmd
}

// reportOptions collects the sources of a report, and the secrets to redact.
func (l *clientFlags) reportOptions() (o bugreport.Options, err error) {
	o.StateDir = l.state.Path
	agent, err := l.agent()
	if err != nil && !errors.Is(err, inspect.ErrNotRunning) {
		return o, err // without access to the agent, the rest cannot be read either
	}
	o.Sources = agentSources(agent)
	if path := l.config.file.Path; path != "" {
		o.Sources = append(o.Sources, bugreport.File("agent/mesh-agent.yaml", path))
	}
	o.Sources = append(o.Sources, bugreport.StateDir(l.state.Path))
	o.Sources = append(o.Sources, bugreport.Envoy(l.envoy())...)
	o.Sources = append(o.Sources, bugreport.Machine()...)
	return o, l.addSecrets(&o)
}

// agentSources returns the sources from the agent; a nil agent does not run.
func agentSources(agent *inspect.Agent) []bugreport.Source {
	ask := func(name string, ask func(context.Context) ([]byte, error)) bugreport.Source {
		return bugreport.Source{Name: "agent/" + name, Read: func(ctx context.Context) ([]byte, error) {
			if agent == nil {
				return nil, inspect.ErrNotRunning
			}
			return ask(ctx)
		}}
	}
	logs := func(from string) func(context.Context) ([]byte, error) {
		return func(ctx context.Context) ([]byte, error) {
			var lines bytes.Buffer
			err := agent.Logs(ctx, &lines, inspect.LogOptions{Lines: math.MaxInt32, From: from})
			return lines.Bytes(), err
		}
	}
	return []bugreport.Source{
		ask("status.json", func(ctx context.Context) ([]byte, error) { return agent.Raw(ctx, "/status") }),
		ask("settings.json", func(ctx context.Context) ([]byte, error) { return agent.Raw(ctx, "/settings") }),
		ask("agent.log", logs(status.FromAgent)),
		ask("envoy.log", logs(status.FromEnvoy)),
	}
}

// addSecrets adds the secrets that an agent with the same file and variables would have.
func (l *clientFlags) addSecrets(o *bugreport.Options) error {
	var wouldRun run.Options
	flags := runFlags(&wouldRun)
	if err := program.FromEnvironment(flags); err != nil {
		return err
	}
	if err := l.config.file.Apply(flags); err != nil {
		return err
	}
	o.Files, o.Secrets = wouldRun.Machine.Identity.Secrets()
	return nil
}

func writeReport(cmd *cobra.Command, file string, o bugreport.Options) (err error) {
	now := time.Now()
	out := terminal.Exact(cmd.OutOrStdout())
	if file != "-" {
		if file == "" {
			host, _ := os.Hostname() // without it the name is shorter
			file = fmt.Sprintf("mesh-agent-%s-%s.tar.gz", host, now.UTC().Format("20060102-150405"))
		}
		f, failed := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if errors.Is(failed, fs.ErrExist) {
			return fmt.Errorf("%s is there already: name another file with -o", file)
		}
		if failed != nil {
			return fmt.Errorf("write the report: %w", failed)
		}
		defer func() {
			if err = errors.Join(err, f.Close()); err != nil {
				_ = os.Remove(file) // a partial report is useless
			}
		}()
		out = f
	}
	missing, err := bugreport.Write(cmd.Context(), out, now, o)
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	if missing != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "This could not be had:\n%s", missing)
	}
	if file != "-" {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: look through it before you give it away\n", file)
	}
	return nil
}
