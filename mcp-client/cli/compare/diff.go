package compare

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/arguments"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/files"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
)

// Diff returns the command diff.
func Diff(s *session.Session) *cobra.Command {
	p := program{s}
	var from files.Sources
	var only arguments.Scope
	cmd := &cobra.Command{
		Use:   "diff (-f (FILE | FOLDER | -) | REVISION [REVISION])",
		Short: "Show what applying files would change, or what changed between revisions",
		Long: `Show what applying files would change, or what changed between two revisions.

With -f, each resource in the files is compared with the one that the server has, read over MCP: what is added, changed and the
same. Zero values that were written out, such as "weight: 0", count as left out there, for so they travel.

With one REVISION, the mesh of that revision is compared with the newest, with two the first with the second, field by field: what revision 6 itself
has changed is diff 5 6; the
server must be pgmesh's. -n and --kind narrow what is compared.

The exit code is 0 if nothing differs, 1 if something does, and more if it could not be told.`,
		Example: `  mcp-client diff -f reviews.yaml
  mcp-client diff -R -f mesh/ -o name
  mcp-client diff 1
  mcp-client diff 1 2 -n default --kind vs`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case (len(args) == 0) != from.Given():
				return failure.Usage(cmd, errors.New("name files with -f, or one or two revisions, and not both"))
			case len(args) == 0:
				return failure.OfComparison(p.diffFiles(cmd.Context(), from))
			}
			return failure.OfComparison(p.diffRevisions(cmd, args, only))
		},
	}
	from.DeclareFlags(cmd, "compare")
	from.DeclareKustomize(cmd)
	only.DeclareFlags(cmd)
	return cmd
}

// Difference is the printed form of a resource that differs between two sides.
type Difference struct {
	Action string `json:"action"` // created, changed or deleted, going from the first side to the second
	Group  string `json:"group"`
	Kind   string `json:"kind"`
	Space  string `json:"namespace,omitempty"`
	Name   string `json:"name"`
	Diff   string `json:"diff,omitempty"`

	key kinds.Key
}

// differ returns how a resource differs between two sides, and whether it does.
func differ(from, to string, before, after *kinds.Resource) (Difference, bool, error) {
	var d Difference
	if same(before, after) {
		return d, false, nil
	}
	old, err := output.TextOf(before)
	if err != nil {
		return d, false, err
	}
	now, err := output.TextOf(after)
	if err != nil || old == now {
		return d, false, err
	}
	d.Action, d.key = "changed", keyOf(before, after)
	switch {
	case before == nil:
		d.Action = "created"
	case after == nil:
		d.Action = "deleted"
	}
	d.Group, d.Kind, d.Space, d.Name = d.key.Kind.Group, d.key.Kind.Name, d.key.Namespace, d.key.Name
	title := words.Kind(d.key.Kind) + " " + d.key.FullName()
	d.Diff = output.Unified(title+" ("+from+")", title+" ("+to+")", old, now)
	return d, true, nil
}

// same compares resources without formatting them, which saves most of the work for two large
// meshes.
func same(a, b *kinds.Resource) bool {
	return a != nil && b != nil && maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations) && a.Spec.Equal(b.Spec)
}

func keyOf(one, other *kinds.Resource) kinds.Key {
	if one != nil {
		return one.Key()
	}
	return other.Key()
}

func (p program) diffFiles(ctx context.Context, from files.Sources) error {
	from.Only = p.GivenNamespace()
	documents, err := from.Read(p.In, p.Namespace.Name)
	if err != nil {
		return err
	}
	var query []arguments.Wanted
	for _, d := range documents {
		query = append(query, arguments.Wanted{Kind: d.Resource.Kind})
	}
	live, err := p.Read(ctx, arguments.KindsOf(query))
	if err != nil {
		return err
	}
	there := live.ByKey()
	found := []Difference{}
	for _, d := range documents {
		f, differs, err := differ(p.Server.Address, d.File, there[d.Resource.Key()], d.Resource)
		if err != nil {
			return err
		}
		if differs {
			found = append(found, f)
		}
	}
	return p.printDifferences(found)
}

// printDifferences prints the differences. If there are any it returns failure.ErrDifferent.
func (p program) printDifferences(found []Difference) error {
	if err := p.writeDifferences(found); err != nil {
		return err
	}
	if len(found) > 0 {
		return failure.ErrDifferent
	}
	return nil
}

func (p program) writeDifferences(found []Difference) error {
	if p.Output.IsTree() {
		return p.PrintTree(found)
	}
	var b strings.Builder
	for _, f := range found {
		if p.Output.Format == output.Name {
			fmt.Fprintln(&b, words.Reference(f.key))
			continue
		}
		b.WriteString(p.PaintDiff(f.Diff))
	}
	return p.Print(b.String())
}
