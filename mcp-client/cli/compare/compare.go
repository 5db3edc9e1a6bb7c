// Package compare has the commands that tell what differs: between files, servers, snapshots and
// revisions.
package compare

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/arguments"
	"github.com/pgmesh/pgmesh/mcp-client/cli/connect"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/files"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
	"github.com/pgmesh/pgmesh/mcp-client/snapshot"
)

// program is a run of mcp-client, with the commands of this package.
type program struct{ *session.Session }

// compareOptions are the options of a comparison.
type compareOptions struct {
	arguments.Scope

	versions, diff bool
}

// Compare returns the command compare.
func Compare(s *session.Session) *cobra.Command {
	p := program{s}
	var c compareOptions
	cmd := &cobra.Command{
		Use:   "compare A [B]",
		Short: "Compare what two servers have, or files",
		Long: `Compare what two servers have, resource by resource: what only one of them has, and what differs in content.

A and B are each the name of a context, the HOST:PORT of a server, a snapshot (see mcp-client snapshot), or a file or folder of
resources. Without B the server of the command is meant. All kinds and namespaces are compared unless -n or --kind say otherwise.

With --versions, what both call by different versions differs too, be its content the same. Servers on one database, and the relays
behind them, call everything the same; those of others and on other databases do not, and files have no versions.

The exit code is 0 if nothing differs, 1 if something does, and more if it could not be told.`,
		Example: `  mcp-client compare 127.0.0.1:15020 mesh/
  mcp-client compare mesh/ --diff
  mcp-client compare prod staging --kind vs,dr`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: p.completeSides,
		RunE: func(cmd *cobra.Command, args []string) error {
			return failure.OfComparison(p.compareSides(cmd, args, c))
		},
	}
	c.DeclareFlags(cmd)
	cmd.Flags().BoolVar(&c.versions, "versions", false, "compare versions too")
	cmd.Flags().BoolVar(&c.diff, "diff", false, "show what differs in each resource")
	return cmd
}

// completeSides completes names of contexts, and otherwise files.
func (p program) completeSides(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	file, err := p.Contexts(nil)
	if err != nil {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return file.Names(), cobra.ShellCompDirectiveDefault
}

// side is one of the two compared states.
type side struct {
	*connect.State

	name     string
	versions bool // whether it has versions
}

func (p program) compareSides(cmd *cobra.Command, args []string, c compareOptions) error {
	ks, err := c.Kinds()
	if err != nil {
		return err
	}
	sides := make([]side, 2)
	for i := range sides {
		if i == len(args) {
			read, err := p.ReadWhole(cmd.Context(), ks)
			if err != nil {
				return err
			}
			sides[i] = side{read, p.Server.Address, true}
		} else if sides[i], err = p.side(cmd, args[i], ks); err != nil {
			return err
		}
		sides[i].State.Narrow(ks, p.Namespace.Requested())
	}
	if c.versions && (!sides[0].versions || !sides[1].versions) {
		return failure.Usage(cmd, errors.New("files of resources have no versions to compare"))
	}
	return p.printComparison(sides[0], sides[1], c)
}

// side reads the state that an argument names.
func (p program) side(cmd *cobra.Command, word string, ks []*kinds.Kind) (side, error) {
	switch _, err := os.Stat(word); {
	case err == nil && snapshot.Is(word):
		h, entries, err := snapshot.Open(word)
		return side{connect.FromSnapshot(h, entries), word, true}, err
	case err == nil:
		return p.sideOfFiles(word)
	}
	other, err := p.Other(cmd, word)
	if err != nil {
		return side{}, err
	}
	read, err := other.ReadWhole(cmd.Context(), ks)
	return side{read, word, true}, err
}

func (p program) sideOfFiles(path string) (side, error) {
	from := files.Sources{Paths: []string{path}, Recursive: true}
	from.TellOn(p.Err)
	documents, err := from.Read(p.In, p.Namespace.Name)
	read := &connect.State{}
	for _, d := range documents {
		read.Resources = append(read.Resources, d.Resource)
	}
	return side{read, path, false}, err
}

// comparison is the printed form of a comparison.
type comparison struct {
	A           sideSummary  `json:"a"`
	B           sideSummary  `json:"b"`
	Same        int          `json:"same"`
	Differences []Difference `json:"differences"`
}

type sideSummary struct {
	Name      string `json:"name"`
	Revision  int64  `json:"revision,omitempty"`
	Resources int    `json:"resources"`
}

func (s side) summary() sideSummary { return sideSummary{s.name, s.Revision, len(s.Resources)} }

func compareStates(a, b side, versions bool) (comparison, error) {
	result := comparison{A: a.summary(), B: b.summary(), Differences: []Difference{}}
	left, right := a.ByKey(), b.ByKey()
	keys := map[kinds.Key]bool{}
	for k := range left {
		keys[k] = true
	}
	for k := range right {
		keys[k] = true
	}
	for _, k := range slices.SortedFunc(maps.Keys(keys), connect.CompareKeys) {
		d, differs, err := differ(a.name, b.name, left[k], right[k])
		if err != nil {
			return result, err
		}
		if !differs && versions && a.State.Versions[k] != b.State.Versions[k] {
			d = Difference{Action: "version", Group: k.Kind.Group, Kind: k.Kind.Name, Space: k.Namespace, Name: k.Name, key: k}
			d.Diff = fmt.Sprintf("-%s\n+%s\n", a.State.Versions[k], b.State.Versions[k])
			differs = true
		}
		if !differs {
			result.Same++
			continue
		}
		result.Differences = append(result.Differences, d)
	}
	return result, nil
}

var comparisonWords = map[string]string{"created": "only in B", "deleted": "only in A", "changed": "differs", "version": "version"}

func (p program) printComparison(a, b side, c compareOptions) error {
	result, err := compareStates(a, b, c.versions)
	if err != nil {
		return err
	}
	switch {
	case p.Output.IsTree():
		err = p.PrintTree(result)
	case c.diff || p.Output.Format == output.Name:
		err = p.writeDifferences(result.Differences)
	default:
		err = p.printComparisonTable(result)
	}
	if err == nil && len(result.Differences) > 0 {
		err = failure.ErrDifferent
	}
	return err
}

func (p program) printComparisonTable(c comparison) error {
	if len(c.Differences) > 0 {
		w := output.NewRows(p.Out)
		w.Row("DIFFERENCE", "RESOURCE")
		for _, d := range c.Differences {
			w.Row(comparisonWords[d.Action], words.Kind(d.key.Kind)+" "+d.key.FullName())
		}
		if err := w.Flush(); err != nil {
			return err
		}
		fmt.Fprintln(p.Out)
	}
	fmt.Fprintf(p.Out, "A  %s\nB  %s\n", c.A, c.B)
	_, err := fmt.Fprintf(p.Out, "%d the same, %d different\n", c.Same, len(c.Differences))
	return err
}

// String describes a side in one line.
func (s sideSummary) String() string {
	text := s.Name + ": " + words.Counted(s.Resources, "resource", "resources")
	if s.Revision > 0 {
		text += fmt.Sprintf(", revision %d", s.Revision)
	}
	return text
}
