package resources

import (
	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/mcp-client/cli/change"
	"github.com/pgmesh/pgmesh/mcp-client/cli/files"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
)

// Apply returns the command apply.
func Apply(s *session.Session) *cobra.Command {
	p := program{s}
	var from files.Sources
	var w change.Options
	cmd := &cobra.Command{
		Use:   "apply (FILE... | -f (FILE | FOLDER | URL | -))",
		Short: "Create or replace resources, all of them or none",
		Long: `Create or replace resources, all of them as one revision, or none.

All files are read and checked first; nothing is sent if there is a mistake in any of them. A resource that names no namespace
goes to that of --namespace.

A file stands for the whole of a resource: labels and annotations that it does not have are taken away. mcp-client patch, label and
annotate change a part.

What has a metadata.resourceVersion, as mcp-client get -o yaml writes it, is applied only if nobody has changed the resource since: leave it
out to overwrite whatever is there. One beside a metadata.uid is of a cluster, and does not count.

` + change.WaitHelp,
		Example: `  mcp-client apply -f reviews.yaml -m "shift 20 % to v2"
  mcp-client apply -R -f mesh/ --dry-run
  mcp-client apply -f reviews.yaml --wait=90% --wait-timeout 1m
  mcp-client get vs reviews -o yaml | sed 's/host: v2/host: v1/' | mcp-client apply -f -`,
		RunE: func(cmd *cobra.Command, args []string) error {
			documents, err := p.documents(cmd, from.ReadWithSecrets, &from, args)
			if err != nil {
				return err
			}
			return change.Apply(cmd.Context(), p.Session, documents, w)
		},
	}
	from.DeclareFlags(cmd, "apply")
	from.DeclareKustomize(cmd)
	w.DeclareFlags(cmd)
	w.DeclareConfirm(cmd)
	w.DeclareWait(cmd)
	return cmd
}
