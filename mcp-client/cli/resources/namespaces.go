package resources

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
)

// Namespaces returns the command namespaces.
func Namespaces(s *session.Session) *cobra.Command {
	p := program{s}
	return &cobra.Command{
		Use:   "namespaces",
		Short: "List the namespaces, and how many resources each has",
		Long: `List the namespaces that have resources which you may read, and how many each has. A namespace is there when something is in it: none has
to be made.`,
		Example: `  mcp-client namespaces
  mcp-client namespaces -o name`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.namespaces(cmd.Context()) },
	}
}

func (p program) namespaces(ctx context.Context) error {
	read, err := p.ReadWhole(ctx, kinds.All())
	if err != nil {
		return err
	}
	type namespace struct {
		Name      string `json:"name"`
		Resources int    `json:"resources"`
	}
	counts := map[string]int{}
	for _, r := range read.Resources {
		counts[r.Namespace]++
	}
	list := []namespace{}
	out := output.Listing{Columns: []string{"NAMESPACE", "RESOURCES"}}
	for _, name := range read.Namespaces() {
		list = append(list, namespace{name, counts[name]})
		out.Add(name, name, strconv.Itoa(counts[name]))
	}
	out.Tree = list
	return p.PrintListing(out)
}
