package store

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/pgmesh/pgmesh/internal/selector"
	"github.com/pgmesh/pgmesh/kinds"
)

// Selection selects the resources that meet all its fields. The zero value selects all.
type Selection struct {
	Kinds      []*kinds.Kind // none stands for all
	Namespaces []string      // likewise; "" selects kinds without a namespace
	Names      []string      // likewise
	Labels     selector.Selector
	Where      string // a predicate about the spec in the path language of SQL/JSON; none if empty
}

// kindNames returns the names by which functions of the schema select kinds. They ignore groups, so
// results have to be filtered with isOf.
func (s Selection) kindNames() []string {
	var names []string
	for _, k := range s.Kinds {
		if !slices.Contains(names, k.Name) {
			names = append(names, k.Name)
		}
	}
	return names
}

func (s Selection) isOf(group, kind string) bool {
	return len(s.Kinds) == 0 || slices.ContainsFunc(s.Kinds, func(k *kinds.Kind) bool { return k.Group == group && k.Name == kind })
}

// selected is the condition for a selected resource. Its parameters are those that arguments returns.
const selected = `$1::bigint IS NOT NULL AND (api_group, kind) IN (SELECT * FROM unnest($2::text[], $3::text[]))
	AND ($4::text[] IS NULL OR namespace = ANY ($4)) AND ($5::text[] IS NULL OR name = ANY ($5))
	AND ($6::jsonb IS NULL OR NOT EXISTS (
		SELECT FROM jsonb_to_recordset($6) AS q (key text, "values" text[], absent boolean)
		WHERE (labels ? q.key AND (q."values" IS NULL OR labels ->> q.key = ANY (q."values"))) = q.absent))
	AND ($7 = '' OR spec @@ nullif($7, '')::jsonpath)`

func (s Selection) arguments(at Revision) []any {
	var of columns
	for _, k := range s.known() {
		of.addKey(kinds.Key{Kind: k})
	}
	return []any{at, of.groups, of.kinds, s.Namespaces, s.Names, s.requirements(), s.Where}
}

// known returns the kinds by name. Without names it lists all that this program knows: others would be
// counted and then left out.
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
