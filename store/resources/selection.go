package resources

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/pgmesh/pgmesh/internal/selector"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/internal/rows"
)

// Selection selects the resources that meet all its fields. The zero value selects all.
type Selection struct {
	Kinds      []*kinds.Kind // none stands for all
	Namespaces []string      // likewise; "" selects kinds without a namespace
	Names      []string      // likewise
	Labels     selector.Selector
	Where      string // a predicate about the spec in the path language of SQL/JSON; none if empty
}

// KindNames returns the names by which functions of the schema select kinds. They ignore groups, so
// results have to be filtered with Has.
func (s Selection) KindNames() []string {
	var names []string
	for _, k := range s.Kinds {
		if !slices.Contains(names, k.Name) {
			names = append(names, k.Name)
		}
	}
	return names
}

// Has reports whether a kind is among the selected ones.
func (s Selection) Has(group, kind string) bool {
	return len(s.Kinds) == 0 || slices.ContainsFunc(s.Kinds, func(k *kinds.Kind) bool { return k.Group == group && k.Name == kind })
}

// arguments are the parameters of the fragment Selected.
func (s Selection) arguments(at store.Revision) []any {
	var of rows.Columns
	for _, k := range s.known() {
		of.AddKey(kinds.Key{Kind: k})
	}
	return []any{at, of.Groups, of.Kinds, s.Namespaces, s.Names, s.requirements(), s.Where}
}

// known returns the kinds by name. Without names it lists all that this program knows: others would
// be counted and then left out.
func (s Selection) known() []*kinds.Kind {
	if len(s.Kinds) == 0 {
		return kinds.All()
	}
	return s.Kinds
}

// requirements returns the label selector as a parameter; NULL if there is none.
func (s Selection) requirements() *string {
	if len(s.Labels) == 0 {
		return nil
	}
	text, err := json.Marshal(s.Labels)
	if err != nil {
		panic(fmt.Sprintf("encoding a label selector: %v", err))
	}
	list := string(text)
	return &list
}
