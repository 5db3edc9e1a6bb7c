package resources

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/internal/kit/terminal"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/change"
	"github.com/pgmesh/pgmesh/mcp-client/cli/connect"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// Export returns the command export.
func Export(s *session.Session) *cobra.Command {
	p := program{s}
	var words []string
	var revision int64
	cmd := &cobra.Command{
		Use:   "export [FOLDER]",
		Short: "Write resources as files, or as one stream",
		Long: `Write resources as files, one each, or without a FOLDER to standard output, a document each.

The resources are those of one revision, of all namespaces unless --namespace is given, and come in the same order each time. The
files are named NAMESPACE/KIND/NAME.yaml; what belongs to no namespace is in _mesh. The folder must be empty or not exist yet.
What is written can be imported, and is then the same to the letter.`,
		Example: `  mcp-client export all/
  mcp-client export -n shop --kind vs,dr
  mcp-client export --revision 1 > before.yaml`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			refs, err := change.KindRefs(words)
			if err != nil {
				return err
			}
			req := &adminv1.ExportRequest{Kinds: refs, Revision: revision}
			namespace := session.Everywhere
			if p.Namespace.Chosen && !p.Namespace.All {
				namespace = p.Namespace.Name
				req.Namespaces = []string{namespace}
			}
			p.WarnOfRights(cmd.Context(), namespace, kinds.All())
			if len(args) == 0 {
				return p.export(cmd.Context(), req, stream{terminal.Exactly(p.Out)})
			}
			return p.exportTo(cmd.Context(), req, args[0])
		},
	}
	cmd.Flags().StringSliceVar(&words, "kind", nil, "only resources of this kind; may be given more than once")
	cmd.Flags().Int64Var(&revision, "revision", 0, "as of this revision; 0 is the newest")
	return cmd
}

// target is the destination of an export.
type target interface {
	put(*kinds.Document, []byte) error
}

func (p program) exportTo(ctx context.Context, req *adminv1.ExportRequest, dir string) error {
	inside, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if len(inside) > 0 {
		return fmt.Errorf("%s is not empty: what was deleted from the mesh would stay in it. Remove it, or name another folder", dir)
	}
	written := &folderTarget{dir: dir}
	if err := p.export(ctx, req, written); err != nil {
		return fmt.Errorf("%w (what is in %s is not complete)", err, dir)
	}
	_, err = fmt.Fprintf(p.Out, "%d resources in %s\n", written.count, dir)
	return err
}

func (p program) export(ctx context.Context, req *adminv1.ExportRequest, to target) error {
	empty := true
	err := connect.Each(ctx, &p.Server, adminv1.NewAdminServiceClient, adminv1.AdminServiceClient.Export, req, func(answer *adminv1.ExportResponse) error {
		for _, r := range answer.GetResources() {
			if err := exportOne(r, to); err != nil {
				return err
			}
			empty = false
		}
		return nil
	})
	if err == nil && empty {
		p.TellIfUnknown(ctx, nil)
	}
	return err
}

func exportOne(sent *adminv1.ExportedResource, to target) error {
	ref := sent.GetResource()
	kind, known := kinds.Lookup(ref.GetGroup(), ref.GetKind())
	if !known {
		return fmt.Errorf("the server sent a resource of the kind %s.%s, which this program does not know: use a newer one", ref.GetKind(), ref.GetGroup())
	}
	d := &kinds.Document{Spec: sent.GetSpec(), Resource: &kinds.Resource{
		Kind: kind, Namespace: ref.GetNamespace(), Name: ref.GetName(), Labels: sent.GetLabels(), Annotations: sent.GetAnnotations(),
	}}
	text, err := d.YAML()
	if err != nil {
		return err
	}
	return to.put(d, text)
}

// stream writes documents one after the other.
type stream struct{ out io.Writer }

func (s stream) put(_ *kinds.Document, text []byte) error {
	_, err := fmt.Fprintf(s.out, "---\n%s", text)
	return err
}

// folderTarget writes one file per resource.
type folderTarget struct {
	dir   string
	made  string // the last folder created; resources of one folder arrive together
	count int
}

// noNamespace is the folder of resources without a namespace. No namespace can have this name.
const noNamespace = "_mesh"

func (f *folderTarget) put(d *kinds.Document, text []byte) error {
	r := d.Resource
	namespace := r.Namespace
	if namespace == "" {
		namespace = noNamespace
	}
	dir := filepath.Join(f.dir, namespace, words.Kind(r.Kind))
	if dir != f.made {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return err
		}
		f.made = dir
	}
	f.count++
	return os.WriteFile(filepath.Join(dir, r.Name+".yaml"), text, 0o666)
}
