package commands

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/internal/program"
	"github.com/pgmesh/pgmesh/mesh-agent/envoy/envoyadmin"
	"github.com/pgmesh/pgmesh/mesh-agent/envoy/envoyview"
	"github.com/pgmesh/pgmesh/mesh-agent/inspect"
)

const envoyHelp = `Look at the Envoy of this machine through its admin API, whose address the agent keeps in the state folder. The agent itself need not run.

Tables have what matters most; -o json is Envoy's own answer.`

func envoyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "envoy", Short: "Look at the Envoy of this machine", Long: envoyHelp,
		Args: cobra.NoArgs,
	}
	config := viewCommand(envoyview.Overview)
	for _, v := range envoyview.Config {
		config.AddCommand(viewCommand(v))
	}
	config.AddCommand(bootstrapDumpCommand())
	cmd.AddCommand(config, statsCommand(), logLevelCommand(), readyCommand())
	for _, v := range envoyview.Live {
		cmd.AddCommand(viewCommand(v))
	}
	return cmd
}

// viewFlags are the flags of a command that prints Envoy's state.
type viewFlags struct {
	clientFlags

	name string
}

func (v *viewFlags) declare(cmd *cobra.Command, formats ...string) {
	v.clientFlags.declare(cmd, formats...)
	cmd.Flags().StringVar(&v.name, "name", "", "only what has a name that this regular expression matches")
}

func (v *viewFlags) wanted() (*regexp.Regexp, error) {
	wanted, err := regexp.Compile(v.name)
	if err != nil {
		return nil, fmt.Errorf("--name %s: %w", v.name, err)
	}
	return wanted, nil
}

func viewCommand(view envoyview.View) *cobra.Command {
	var v viewFlags
	cmd := &cobra.Command{
		Use: view.Name, Short: view.Short, Example: view.Example,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return v.show(cmd, view) },
	}
	v.declare(cmd, inspect.Formats...)
	return cmd
}

func (v *viewFlags) show(cmd *cobra.Command, view envoyview.View) error {
	wanted, err := v.wanted()
	if err != nil {
		return err
	}
	answer, err := v.envoy().Get(cmd.Context(), view.URL(v.name))
	if err != nil {
		return err
	}
	defer answer.Close()
	if v.output == "table" {
		return view.Write(cmd.OutOrStdout(), answer, wanted)
	}
	raw, err := view.Raw(answer)
	if err != nil {
		return fmt.Errorf("read Envoy's answer: %w", err)
	}
	return inspect.Print(cmd.OutOrStdout(), v.output, raw, nil)
}

func bootstrapDumpCommand() *cobra.Command {
	var l clientFlags
	cmd := &cobra.Command{
		Use:     "bootstrap",
		Short:   "Print the bootstrap that Envoy was started with",
		Example: "  mesh-agent envoy config bootstrap -o yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var dump map[string]any
			if err := l.envoy().JSON(cmd.Context(), "/config_dump?mask=bootstrap", &dump); err != nil {
				return err
			}
			return inspect.Print(cmd.OutOrStdout(), l.output, dump, nil)
		},
	}
	l.declare(cmd, "json", "yaml")
	return cmd
}

func statsCommand() *cobra.Command {
	var v viewFlags
	var all bool
	cmd := &cobra.Command{
		Use:     "stats",
		Short:   "List statistics",
		Example: "  mesh-agent envoy stats --name 'cart.*rq_5xx'\n  mesh-agent envoy stats -o prometheus --all",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := v.wanted(); err != nil {
				return err
			}
			answer, err := v.envoy().Get(cmd.Context(), envoyview.StatsPath(v.name, v.output, all))
			if err != nil {
				return err
			}
			defer answer.Close()
			if v.output == "table" {
				return envoyview.WriteStats(cmd.OutOrStdout(), answer)
			}
			_, err = io.Copy(cmd.OutOrStdout(), answer)
			return err
		},
	}
	v.declare(cmd, "table", "text", "json", "prometheus")
	cmd.Flags().BoolVar(&all, "all", false, "those that were never touched, too")
	return cmd
}

func readyCommand() *cobra.Command {
	var l clientFlags
	cmd := &cobra.Command{
		Use:     "ready",
		Short:   "Tell whether Envoy takes connections",
		Long:    "Tell whether Envoy takes connections. Exit code 0: it does. 1: it does not, or does not run.",
		Example: "  mesh-agent envoy ready && echo go",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			said, err := l.envoy().Text(cmd.Context(), "/ready")
			if refused, is := errors.AsType[*envoyadmin.RefusedError](err); is {
				fmt.Fprintln(cmd.ErrOrStderr(), refused.Message)
				return program.Exit(1)
			}
			if err == nil {
				_, err = fmt.Fprintln(cmd.OutOrStdout(), strings.TrimSpace(said))
			}
			return err
		},
	}
	l.declare(cmd)
	return cmd
}
