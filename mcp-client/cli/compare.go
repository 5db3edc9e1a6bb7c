package cli

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/snapshot"
)

// compareOptions are the options of a comparison.
type compareOptions struct {
	scope

	versions, diff bool
}

func (p *session) compareCommand() *cobra.Command {
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
			return compared(p.compareSides(cmd, args, c))
		},
	}
	c.declareFlags(cmd)
	cmd.Flags().BoolVar(&c.versions, "versions", false, "compare versions too")
	cmd.Flags().BoolVar(&c.diff, "diff", false, "show what differs in each resource")
	return cmd
}

// completeSides completes names of contexts, and otherwise files.
func (p *session) completeSides(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	file, err := p.contexts(nil)
	if err != nil {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return file.Names(), cobra.ShellCompDirectiveDefault
}

// side is one of the two compared states.
type side struct {
	*state

	name     string
	versions bool // whether it has versions
}

func (p *session) compareSides(cmd *cobra.Command, args []string, c compareOptions) error {
	ks, err := c.kinds()
	if err != nil {
		return err
	}
	sides := make([]side, 2)
	for i := range sides {
		if i == len(args) {
			read, err := p.read(cmd.Context(), ks)
			if err != nil {
				return err
			}
			sides[i] = side{read, p.server.address, true}
		} else if sides[i], err = p.side(cmd, args[i], ks); err != nil {
			return err
		}
		sides[i].state.narrow(ks, p.namespace.requested())
	}
	if c.versions && (!sides[0].versions || !sides[1].versions) {
		return usage(cmd, errors.New("files of resources have no versions to compare"))
	}
	return p.printComparison(sides[0], sides[1], c)
}

// side reads the state that an argument names.
func (p *session) side(cmd *cobra.Command, word string, ks []*kinds.Kind) (side, error) {
	switch _, err := os.Stat(word); {
	case err == nil && snapshot.Is(word):
		h, entries, err := snapshot.Open(word)
		return side{stateOf(h, entries), word, true}, err
	case err == nil:
		return p.sideOfFiles(word)
	}
	other, err := p.other(cmd, word)
	if err != nil {
		return side{}, err
	}
	read, err := other.read(cmd.Context(), ks)
	return side{read, word, true}, err
}

func (p *session) sideOfFiles(path string) (side, error) {
	documents, err := (&sources{paths: []string{path}, recursive: true}).read(p.In, p.namespace.name)
	read := &state{}
	for _, d := range documents {
		read.resources = append(read.resources, d.Resource)
	}
	return side{read, path, false}, err
}

// comparison is the printed form of a comparison.
type comparison struct {
	A           sideSummary  `json:"a"`
	B           sideSummary  `json:"b"`
	Same        int          `json:"same"`
	Differences []difference `json:"differences"`
}

type sideSummary struct {
	Name      string `json:"name"`
	Revision  int64  `json:"revision,omitempty"`
	Resources int    `json:"resources"`
}

func (s side) summary() sideSummary { return sideSummary{s.name, s.revision, len(s.resources)} }

func compareStates(a, b side, versions bool) (comparison, error) {
	result := comparison{A: a.summary(), B: b.summary(), Differences: []difference{}}
	left, right := a.byKey(), b.byKey()
	keys := map[kinds.Key]bool{}
	for k := range left {
		keys[k] = true
	}
	for k := range right {
		keys[k] = true
	}
	for _, k := range slices.SortedFunc(maps.Keys(keys), compare) {
		d, differs, err := differ(a.name, b.name, left[k], right[k])
		if err != nil {
			return result, err
		}
		if !differs && versions && a.state.versions[k] != b.state.versions[k] {
			d = difference{Action: "version", Group: k.Kind.Group, Kind: k.Kind.Name, Space: k.Namespace, Name: k.Name, key: k}
			d.Diff = fmt.Sprintf("-%s\n+%s\n", a.state.versions[k], b.state.versions[k])
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

func (p *session) printComparison(a, b side, c compareOptions) error {
	result, err := compareStates(a, b, c.versions)
	if err != nil {
		return err
	}
	switch {
	case p.output.isTree():
		err = p.printTree(result)
	case c.diff || p.output.format == nameFormat:
		err = p.writeDifferences(result.Differences)
	default:
		err = p.printComparisonTable(result)
	}
	if err == nil && len(result.Differences) > 0 {
		err = errDifferent
	}
	return err
}

func (p *session) printComparisonTable(c comparison) error {
	if len(c.Differences) > 0 {
		w := newRows(p.Out)
		w.row("DIFFERENCE", "RESOURCE")
		for _, d := range c.Differences {
			w.row(comparisonWords[d.Action], word(d.key.Kind)+" "+d.key.FullName())
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
	text := s.Name + ": " + counted(s.Resources, "resource", "resources")
	if s.Revision > 0 {
		text += fmt.Sprintf(", revision %d", s.Revision)
	}
	return text
}
