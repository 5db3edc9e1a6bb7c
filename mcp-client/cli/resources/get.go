// Package resources has the commands that read and change resources, on a server and in files.
package resources

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/internal/selector"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/arguments"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
	"github.com/pgmesh/pgmesh/mcp-client/cli/secrets"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
)

// program is a run of mcp-client, with the commands of this package.
type program struct{ *session.Session }

// Get returns the command get.
func Get(s *session.Session) *cobra.Command {
	p := program{s}
	var g getting
	var labels, fields, sorting string
	cmd := &cobra.Command{
		Use:   "get (KIND [NAME...] | KIND/NAME... | all)",
		Short: "Print resources as they stand",
		Long: `Print resources as they stand on the server, read over MCP.

A KIND is any name that "mcp-client kinds" lists; several are separated by commas. A NAME may be NAMESPACE/NAME.
Of secrets it prints what is known of them, and never a value: see mcp-client secret.

ORIGIN is the registry that a resource comes from, where it has to be changed, and "-" for one of the mesh's own. The column is there if
something comes from a registry, and with -o wide.

A pgmesh server also tells what became of each: STATUS is Programmed once all connected proxies run it that it concerns, and otherwise a
word that says why not; PROXIES is how many run it, of how many. -o yaml and -o json have the conditions in the field status, which apply
leaves out, and metadata.resourceVersion, the revision that changed the resource last: apply refuses what was changed since, unless it is as the file has it.

-o terraform prints blocks by which Terraform and OpenTofu import the resources, and write the configuration of them: plan
-generate-config-out. What registries and machines have written is left out, for it changes by itself.`,
		Example: `  mcp-client get vs
  mcp-client get virtualservice reviews -o yaml
  mcp-client get vs,dr -A -l app=reviews
  mcp-client get serviceentries -A --origin database
  mcp-client get vs -A --sort-by .metadata.creationTimestamp --no-headers
  mcp-client get vs -A --field-selector metadata.namespace!=prod --show-labels
  mcp-client get all -A -o yaml > mesh.yaml
  mcp-client get vs,dr -n shop -o terraform > imports.tf`,
		Annotations:       map[string]string{output.Imports: "yes"},
		ValidArgsFunction: p.CompleteResources,
		RunE: func(cmd *cobra.Command, args []string) error {
			if secrets.Asked(args) {
				return p.getSecrets(cmd, args, g, labels)
			}
			if err := g.chooses(args, labels, fields, sorting); err != nil {
				return failure.Usage(cmd, err)
			}
			if g.watch && p.Output.IsImport() {
				return failure.Usage(cmd, errors.New("-o terraform is of what there is, and not of what changes: leave --watch out"))
			}
			if g.watch {
				return p.getAndWatch(cmd.Context(), g)
			}
			return p.get(cmd.Context(), g)
		},
	}
	cmd.Flags().StringVarP(&labels, "selector", "l", "", session.SelectorHelp)
	cmd.Flags().StringVar(&fields, "field-selector", "", `only resources with these values of fields: "metadata.namespace!=prod,spec.gateways[0]=edge"`)
	cmd.Flags().StringVar(&g.origin, "origin", "", originHelp)
	cmd.Flags().StringVar(&sorting, "sort-by", "", "sort by the value at this path, such as .metadata.creationTimestamp")
	cmd.Flags().BoolVarP(&g.watch, "watch", "w", false, "go on, and print what changes and how far it has come, until interrupted; see mcp-client watch, too")
	cmd.Flags().BoolVar(&p.NoHeaders, "no-headers", false, "print no titles of columns")
	cmd.Flags().StringSliceVarP(&p.LabelColumns, "label-columns", "L", nil, "print these labels in a column each; may be given more than once")
	cmd.Flags().BoolVar(&g.ignoreMissing, "ignore-not-found", false, "print what exists, and say nothing of the others")
	cmd.Flags().BoolVar(&p.Labels, "show-labels", false, "print labels in a column of their own")
	return cmd
}

// getting is what one run of get asks for.
type getting struct {
	query   []arguments.Wanted
	labels  selector.Selector
	fields  fieldSelector
	origin  string
	sorting output.Path
	watch   bool

	ignoreMissing bool

	write written // what fields are looked for in
}

// chooses reads what the arguments and flags choose.
func (g *getting) chooses(args []string, labels, fields, sorting string) (err error) {
	if g.query, err = arguments.Parse(args); err != nil {
		return err
	}
	if g.labels, err = selector.Parse(labels); err != nil {
		return err
	}
	if g.fields, err = parseFields(fields); err != nil {
		return err
	}
	if sorting != "" {
		if g.sorting, err = output.ParsePath(sorting); err != nil {
			return fmt.Errorf("--sort-by: %w", err)
		}
	}
	g.write = func(r *kinds.Resource) ([]byte, error) { return kinds.MarshalJSON(r) }
	return g.checkPaths()
}

// checkPaths refuses paths that can find nothing, for a mistyped one would sort by nothing, or choose nothing.
func (g *getting) checkPaths() error {
	of := arguments.KindsOf(g.query)
	for _, one := range g.fields {
		if err := checkPath(one.path, of); err != nil {
			return fmt.Errorf("--field-selector: %w", err)
		}
	}
	if g.sorting != "" {
		if err := checkPath(g.sorting, of); err != nil {
			return fmt.Errorf("--sort-by: %w", err)
		}
	}
	if g.watch && g.needsStatus() {
		return errors.New("a status and a resourceVersion are not looked at while a watch goes on: leave --watch out, or choose by other fields")
	}
	return nil
}

// needsStatus reports whether resources are chosen or sorted by what is asked for beside them.
func (g *getting) needsStatus() bool {
	return ofStatus(g.sorting) || slices.ContainsFunc(g.fields, func(one fieldRequirement) bool { return ofStatus(one.path) })
}

// selects reports whether a resource has the origin and the fields that are asked for.
func (g getting) selects(r *kinds.Resource) (bool, error) {
	if !ofOrigin(r, g.origin) {
		return false, nil
	}
	return g.fields.matches(r, g.write)
}

// of chooses resources, and sorts them.
func (g getting) of(all []*kinds.Resource) (chosen []*kinds.Resource, err error) {
	for _, r := range all {
		selected, err := g.selects(r)
		if err != nil {
			return nil, err
		}
		if selected {
			chosen = append(chosen, r)
		}
	}
	if g.sorting != "" {
		err = sortBy(g.sorting, chosen, g.write)
	}
	return chosen, err
}

// originHelp says how origins are chosen.
const originHelp = `only what comes from this registry, or "` + kinds.OwnOrigin + `" for what is the mesh's own`

// ofOrigin reports whether a resource comes from a registry, or is the mesh's own.
func ofOrigin(r *kinds.Resource, origin string) bool {
	return origin == "" || origin == cmp.Or(r.Origin(), kinds.OwnOrigin)
}

func (p program) get(ctx context.Context, g getting) error {
	all, err := p.Read(ctx, arguments.KindsOf(g.query))
	if err != nil {
		return err
	}
	if g.needsStatus() {
		known, _ := p.statusesOf(ctx, all.Resources)
		g.write = withVersions(known, all.Revision).JSON
	}
	chosen, err := g.of(all.Resources)
	if err != nil {
		return err
	}
	if g.ignoreMissing {
		if g.query = p.existing(g.query, chosen); len(g.query) == 0 {
			return nil
		}
	}
	defer p.TellUnknownNamespace(ctx, g.query, g.labels, chosen)
	return p.PrintFound(g.query, g.labels, chosen, func(found []*kinds.Resource) output.Statuses {
		return withVersions(p.statuses(ctx, found), all.Revision)
	})
}

// withVersions adds the versions of resources that were read at a revision.
func withVersions(known output.Statuses, revision int64) output.Statuses {
	for _, status := range known {
		status.Version = versionAt(revision, status.ObservedRevision)
	}
	return known
}

// existing drops from a query the names of which there is no resource.
func (p program) existing(query []arguments.Wanted, all []*kinds.Resource) []arguments.Wanted {
	return slices.DeleteFunc(slices.Clone(query), func(w arguments.Wanted) bool {
		return w.Name != "" && !slices.ContainsFunc(all, func(r *kinds.Resource) bool { return p.Namespace.Holds(w, r.Key()) })
	})
}

// versionAt is the resourceVersion of a resource that was read as of a revision, when it was changed
// last by another. If that is the later one, it has changed since it was read: nobody may believe to
// have seen that, so the version is one that is no longer in force.
func versionAt(read, changed int64) string {
	if read == 0 || changed == 0 {
		return "" // of a server without revisions, or of a registry
	}
	return strconv.FormatInt(min(read, changed), 10)
}
