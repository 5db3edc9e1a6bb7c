package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/kinds"
)

// scope restricts a command about the whole mesh to some kinds. The flag -n restricts it to a namespace.
type scope struct{ words []string }

func (s *scope) declareFlags(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&s.words, "kind", nil, "only resources of this kind; may be given more than once")
}

// kinds returns the named kinds, or all if none is named.
func (s *scope) kinds() ([]*kinds.Kind, error) {
	if len(s.words) == 0 {
		return kinds.All(), nil
	}
	var ks []*kinds.Kind
	for _, word := range s.words {
		k, err := kinds.ByName(word)
		if err != nil {
			return nil, usage(nil, err)
		}
		ks = append(ks, k)
	}
	return distinct(ks), nil
}

// requested returns the named kinds for a call of the admin API, none for all.
func (s *scope) requested() ([]string, error) {
	if len(s.words) == 0 {
		return nil, nil
	}
	ks, err := s.kinds()
	return kindWords(ks), err
}

// requested returns the namespaces for a call of the admin API, none for all.
func (n namespace) requested() []string {
	if n.chosen && !n.all {
		return []string{n.name}
	}
	return nil
}

// narrow removes what is of other kinds or, if any is named, of other namespaces.
func (s *state) narrow(ks []*kinds.Kind, namespaces []string) {
	s.resources = slices.DeleteFunc(s.resources, func(r *kinds.Resource) bool {
		return !slices.Contains(ks, r.Kind) || len(namespaces) > 0 && !slices.Contains(namespaces, r.Namespace)
	})
}
