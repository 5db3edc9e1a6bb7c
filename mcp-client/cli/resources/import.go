package resources

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/change"
	"github.com/pgmesh/pgmesh/mcp-client/cli/files"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	"github.com/pgmesh/pgmesh/mcp-client/convert"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// importOptions are the options of an import.
type importOptions struct {
	change.Options

	strict  bool
	from    string // what else the files are than resources
	pruning change.Pruning
}

// Import returns the command import.
func Import(s *session.Session) *cobra.Command {
	p := program{s}
	var from files.Sources
	var i importOptions
	cmd := &cobra.Command{
		Use:   "import PATH...",
		Short: "Create or replace any number of resources, all of them or none",
		Long: `Create or replace any number of resources, all of them as one revision, or none.

A PATH is a file, a folder with its folders, or - for standard input. What a cluster adds to resources is left out: their status,
managedFields, owners and the like. So are documents of kinds that have nothing to do with a mesh, which are counted; with
--strict they are mistakes. A resource that names no namespace goes to that of --namespace.

With --from, the files are something else, which is converted first: see mcp-client convert, which prints what this imports. Each thing
that the mesh cannot say is a warning; with --strict it is a mistake.

With --prune, what is not among the resources is deleted, in the namespaces of --prune-namespace alone.`,
		Example: `  mcp-client import mesh/ -m "everything from git"
  kubectl get virtualservices,destinationrules,gateways.networking.istio.io,serviceentries -A -o yaml | mcp-client import -
  mcp-client import shop/ --prune --prune-namespace shop --dry-run
  kubectl get services,endpointslices,pods,nodes -A -o yaml | mcp-client import --from kubernetes -
  mcp-client import --from kuma kuma.yaml -n shop --dry-run`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(from.Paths) > 0 {
				return nil
			}
			return cobra.MinimumNArgs(1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			from.Paths, from.Recursive = append(from.Paths, args...), true
			if err := validSource(cmd, i.from); err != nil {
				return err
			}
			if i.from != "" {
				from.Endings = convert.Source(i.from).Endings()
			}
			start := i.Start()
			var err error
			if start.Prune, err = i.pruning.Checked(cmd, i.DryRun); err != nil {
				return err
			}
			return p.importAll(cmd.Context(), from, i, start)
		},
	}
	from.DeclareAsKubectl(cmd)
	i.DeclareFlags(cmd)
	i.DeclareConfirm(cmd)
	i.DeclareWait(cmd)
	f := cmd.Flags()
	declareSource(cmd, &i.from, "resources of the mesh")
	f.BoolVar(&i.strict, "strict", false, "refuse documents of kinds that have nothing to do with a mesh, and with --from what cannot be converted whole")
	i.pruning.DeclareFlags(cmd)
	i.pruning.DeclareYes(cmd)
	return cmd
}

// importAll reads the files and sends the documents as it reads them.
func (p program) importAll(ctx context.Context, from files.Sources, i importOptions, start *adminv1.ImportStart) error {
	paths, err := from.Files()
	if err != nil {
		return err
	}
	shown := files.NewProgress(p.Err, paths)
	defer shown.Clear()
	from.TellOn(p.Err)
	reading := &files.Reader{From: &from, In: p.In, Namespace: p.Namespace.Name, Skipped: files.Skipped{}, Strict: i.strict, Shown: shown}
	read := reading.All(paths)
	if i.from != "" {
		if read, err = p.converting(from, i); err != nil {
			return err
		}
	}
	done, err := change.Import(ctx, &p.Server, start, shown, read)
	shown.Clear()
	if err != nil {
		return err
	}
	if err := done.NamingOverwritten().Print(p.Printer, reading.Skipped, i.DryRun); err != nil {
		return err
	}
	return i.Wait(ctx, p.Session, done.Revision())
}

// converting converts files, and returns what passes on the resources that they become.
func (p program) converting(from files.Sources, i importOptions) (func(send func(*kinds.Document) error) error, error) {
	result, err := p.convertFiles(from, nil, convert.Options{From: convert.Source(i.from), Class: defaultClass})
	if err != nil {
		return nil, err
	}
	if err := p.tellConverted(result, i.strict); err != nil {
		return nil, err
	}
	return func(send func(*kinds.Document) error) error {
		for _, d := range result.Documents {
			if err := send(d); err != nil {
				return err
			}
		}
		return nil
	}, nil
}
