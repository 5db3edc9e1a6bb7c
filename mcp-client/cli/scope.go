package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/kinds"
)

// scope narrows a command about the whole mesh: to kinds, and by -n to a namespace.
type scope struct{ words []string }

func (s *scope) declareFlags(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&s.words, "kind", nil, "only resources of this kind; may be given more than once")
}

// kinds are those that were named, all of them if none was.
func (s *scope) kinds() ([]*kinds.Kind, error) {
	if len(s.words) == 0 {
		return kinds.All(), nil
	}
	var ks []*kinds.Kind
	for _, word := range s.words {
		k, err := kinds.ByName(word)
		if err != nil {
			return nil, &usageError{err: err}
		}
		ks = append(ks, k)
	}
	return distinct(ks), nil
}

// namespaces are those that a call of the admin API is limited to, none for all.
func (p *Program) namespaces() []string {
	if p.namespace.chosen && !p.namespace.all {
		return []string{p.namespace.name}
	}
	return nil
}

// inScope leaves out of a state what a command is not about.
func (p *Program) inScope(s *state, ks []*kinds.Kind) {
	spaces := p.namespaces()
	s.resources = slices.DeleteFunc(s.resources, func(r *kinds.Resource) bool {
		return !slices.Contains(ks, r.Kind) || len(spaces) > 0 && !slices.Contains(spaces, r.Namespace)
	})
}
