package change

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// Pruning is what the flags of an import say about resources that it does not have.
type Pruning struct {
	asked, needsLook, yes bool
	namespaces, kinds     []string
}

// DeclareFlags declares --prune, --prune-namespace and --prune-kind.
func (p *Pruning) DeclareFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&p.asked, "prune", false, "delete what is not imported, in the namespaces of --prune-namespace")
	f.StringSliceVar(&p.namespaces, "prune-namespace", nil, "a namespace to prune; may be given more than once")
	f.StringSliceVar(&p.kinds, "prune-kind", nil, "prune resources of this kind alone; may be given more than once")
}

// DeclareYes declares --yes, without which one has to look at what would be deleted first.
func (p *Pruning) DeclareYes(cmd *cobra.Command) {
	p.needsLook = true
	cmd.Flags().BoolVar(&p.yes, "yes", false, "prune without having looked at it by --dry-run")
}

// Checked is what the flags ask the server for; nil if they ask for nothing.
func (p *Pruning) Checked(cmd *cobra.Command, dryRun bool) (*adminv1.Prune, error) {
	switch {
	case !p.asked && len(p.namespaces)+len(p.kinds) > 0:
		return nil, failure.Usage(cmd, errors.New("--prune-namespace and --prune-kind say what --prune is to do, which is missing"))
	case !p.asked:
		return nil, nil //nolint:nilnil // nothing is to be pruned
	case len(p.namespaces) == 0:
		return nil, failure.Usage(cmd, errors.New("name what to prune with --prune-namespace"))
	case p.needsLook && !p.yes && !dryRun:
		return nil, failure.Usage(cmd, errors.New("--prune deletes resources: look at what it would do with --dry-run, and then say --yes"))
	}
	refs, err := KindRefs(p.kinds)
	return &adminv1.Prune{Namespaces: p.namespaces, Kinds: refs}, err
}

// KindRefs are the kinds that words name.
func KindRefs(words []string) ([]*adminv1.KindRef, error) {
	var refs []*adminv1.KindRef
	for _, word := range words {
		k, err := kinds.ByName(word)
		if err != nil {
			return nil, failure.Usage(nil, err)
		}
		refs = append(refs, &adminv1.KindRef{Group: k.Group, Kind: k.Name})
	}
	return refs, nil
}
