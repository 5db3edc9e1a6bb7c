package arguments

import (
	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
)

// Scope restricts a command about the whole mesh to some kinds. The flag -n restricts it to a
// namespace.
type Scope struct{ words []string }

// DeclareFlags declares --kind.
func (s *Scope) DeclareFlags(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&s.words, "kind", nil, "only resources of this kind; may be given more than once")
}

// Kinds returns the named kinds, or all if none is named.
func (s *Scope) Kinds() ([]*kinds.Kind, error) {
	if len(s.words) == 0 {
		return kinds.All(), nil
	}
	var ks []*kinds.Kind
	for _, word := range s.words {
		k, err := kinds.ByName(word)
		if err != nil {
			return nil, failure.Usage(nil, err)
		}
		ks = append(ks, k)
	}
	return Distinct(ks), nil
}

// Requested returns the named kinds for a call of the admin API, none for all.
func (s *Scope) Requested() ([]string, error) {
	if len(s.words) == 0 {
		return nil, nil
	}
	ks, err := s.Kinds()
	return FullNames(ks), err
}

// FullNames returns names of kinds that mean nothing else.
func FullNames(ks []*kinds.Kind) []string {
	var names []string
	for _, k := range ks {
		names = append(names, k.Plural+"."+k.Group)
	}
	return names
}
