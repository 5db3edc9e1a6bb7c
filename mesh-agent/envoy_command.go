package main

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

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

func (l *clientFlags) envoy() *envoyadmin.Admin { return envoyadmin.OfStateDir(l.state.Path) }

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

const logLevelHelp = `Print or change how much Envoy logs, by component, until it is started again. --envoy-log-level and --envoy-component-log-level of mesh-agent run
say it for good.

A level alone is for all components: trace, debug, info, warning, error, critical or off.`

func logLevelCommand() *cobra.Command {
	var v viewFlags
	cmd := &cobra.Command{
		Use:               "log-level [LEVEL | COMPONENT=LEVEL]...",
		Short:             "Print or change how much Envoy logs",
		Long:              logLevelHelp,
		Example:           "  mesh-agent envoy log-level\n  mesh-agent envoy log-level warning upstream=debug config=trace\n  mesh-agent logs -f --component upstream",
		ValidArgsFunction: v.completeLevels,
		RunE: func(cmd *cobra.Command, args []string) error {
			wanted, err := v.wanted()
			if err != nil {
				return err
			}
			before, err := envoyview.ReadComponents(cmd.Context(), v.envoy())
			if err != nil {
				return err
			}
			changes, err := before.ParseChanges(args)
			if err != nil {
				return err
			}
			if err := envoyview.Apply(cmd.Context(), v.envoy(), changes); err != nil {
				return err
			}
			now, err := envoyview.ReadComponents(cmd.Context(), v.envoy())
			if err != nil {
				return err
			}
			return v.printLevels(cmd.OutOrStdout(), before, now, wanted, len(args) > 0)
		},
	}
	v.declare(cmd, inspect.Formats...)
	return cmd
}

// printLevels prints all levels, or those that were changed.
func (v *viewFlags) printLevels(out io.Writer, before, now envoyview.Components, wanted *regexp.Regexp, changed bool) error {
	shown := envoyview.Components{}
	for name, level := range now {
		if wanted.MatchString(name) && (!changed || before[name] != level) {
			shown[name] = level
		}
	}
	return inspect.Print(out, v.output, shown, func(out io.Writer) error {
		if len(shown) == 0 {
			_, err := fmt.Fprintln(out, "nothing has changed")
			return err
		}
		w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
		fmt.Fprintln(w, "COMPONENT\tLEVEL")
		for _, name := range shown.Names() {
			fmt.Fprintf(w, "%s\t%s\n", name, shown[name])
		}
		return w.Flush()
	})
}

// completeLevels completes with the running Envoy's components.
func (v *viewFlags) completeLevels(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	component, _, named := strings.Cut(begun, "=")
	if named {
		all := slices.Clone(envoyview.LogLevels)
		for i := range all {
			all[i] = component + "=" + all[i]
		}
		return all, cobra.ShellCompDirectiveNoFileComp
	}
	all := slices.Clone(envoyview.LogLevels)
	components, _ := envoyview.ReadComponents(cmd.Context(), v.envoy()) // without Envoy there are none
	for _, name := range components.Names() {
		all = append(all, name+"=")
	}
	return all, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
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
