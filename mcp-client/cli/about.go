package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/internal/kit/version"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
)

func kindsCommand(s *session.Session) *cobra.Command {
	p := program{s}
	return &cobra.Command{
		Use:   "kinds",
		Short: "List the kinds of resources",
		Long:  `List the kinds of resources: what each may be called on the command line, and its API version. -o wide has all versions.`,
		Example: `  mcp-client kinds
  mcp-client kinds -o wide`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			switch {
			case p.Output.IsTree():
				return p.printKindsTree()
			case p.Output.IsTable():
				return p.printKinds()
			}
			return p.printKindNames()
		},
	}
}

func (p program) printKinds() error {
	w := output.NewRows(p.Out)
	w.Row("NAME", "SHORT NAMES", "API VERSION", "NAMESPACED", "KIND")
	for _, k := range kinds.All() {
		name := k.Plural
		if words.Kind(k) != strings.ToLower(k.Name) {
			name += "." + k.Group
		}
		version := k.APIVersion()
		if p.Output.Format == output.Wide {
			version = k.Group + "/" + strings.Join(k.Versions, ",")
		}
		w.Row(name, strings.Join(k.ShortNames, ","), version, strconv.FormatBool(k.Namespaced), k.Name)
	}
	return w.Flush()
}

func (p program) printKindNames() error {
	var b strings.Builder
	for _, k := range kinds.All() {
		fmt.Fprintln(&b, k.Plural+"."+k.Group)
	}
	return p.Print(b.String())
}

func (p program) printKindsTree() error {
	type row struct {
		Kind       string   `json:"kind"`
		Plural     string   `json:"plural"`
		ShortNames []string `json:"shortNames,omitempty"`
		Group      string   `json:"group"`
		Versions   []string `json:"versions"`
		Namespaced bool     `json:"namespaced"`
	}
	var rows []row
	for _, k := range kinds.All() {
		rows = append(rows, row{k.Name, k.Plural, k.ShortNames, k.Group, k.Versions, k.Namespaced})
	}
	return p.PrintTree(rows)
}

func versionCommand(s *session.Session) *cobra.Command {
	p := program{s}
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Long:  `Print the version of this program. -o json has the commit that it was built from, too.`,
		Example: `  mcp-client version
  mcp-client version -o json`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return p.printVersion() },
	}
}

func (p program) printVersion() error {
	if p.Output.IsTree() {
		return p.PrintTree(version.OfBuild())
	}
	_, err := fmt.Fprintln(p.Out, "mcp-client", version.Of())
	return err
}

// printVersionIfAsked gives the command without a subcommand the flag --version, which the other programs have.
func printVersionIfAsked(p program, root *cobra.Command) *cobra.Command {
	asked, otherwise := root.Flags().Bool("version", false, "print the version of this program, as the command version does"), root.RunE
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if *asked {
			return p.printVersion()
		}
		return otherwise(cmd, args)
	}
	return root
}
