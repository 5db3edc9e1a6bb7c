package commands

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/mesh-agent/envoy/envoyview"
	"github.com/pgmesh/pgmesh/mesh-agent/inspect"
)

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
