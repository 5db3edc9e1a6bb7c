// Package kindtables writes what this program knows of kinds as rows of the database's tables:
// kinds, types, fields and rules, and predicates by which the database checks a document quickly.
package kindtables

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/kinds/schema"
)

// Tables are what the database stores about kinds, as rows of the tables that the fields are named
// after.
type Tables struct {
	Kinds   []kindRow   `json:"kinds"`
	Types   []typeRow   `json:"types"`
	Fields  []fieldRow  `json:"fields"`
	Parts   []partRow   `json:"parts"`
	Formats []formatRow `json:"formats"`
	Rules   []ruleRow   `json:"rules"`

	Unsupported []unsupportedRow `json:"unsupported"`
}

type kindRow struct {
	APIGroup   string   `json:"api_group"`
	Kind       string   `json:"kind"`
	Plural     string   `json:"plural"`
	ShortNames []string `json:"short_names"`
	Versions   []string `json:"versions"`
	Namespaced bool     `json:"namespaced"`
	Type       string   `json:"type"`
	Rules      int32    `json:"rules"`
}

type typeRow struct {
	Type   string     `json:"type"`
	Fields []string   `json:"fields"`
	Oneofs [][]string `json:"oneofs"`
	Broken *string    `json:"broken"`
	Tested *string    `json:"tested"`

	OwnValues *string `json:"own_values"`
	OwnParts  *string `json:"own_parts"`

	Parts      []string `json:"parts"`
	PartTypes  []string `json:"part_types"`
	PartShapes []string `json:"part_shapes"`
}

type fieldRow struct {
	Type      string   `json:"type"`
	Position  int      `json:"position"`
	Name      string   `json:"name"`
	Names     []string `json:"names"`
	ValueType string   `json:"value_type"`
	Ref       string   `json:"ref,omitempty"`
	Shape     string   `json:"shape"`
	KeyType   string   `json:"key_type,omitempty"`
	Required  bool     `json:"required"`
	MinItems  *int     `json:"min_items"`
	MaxItems  *int     `json:"max_items"`
	Enum      []string `json:"enum"`
	Numbers   []int    `json:"numbers"`
	Min       *float64 `json:"min"`
	Max       *float64 `json:"max"`
	MinLength *int     `json:"min_length"`
	MaxLength *int     `json:"max_length"`
	Pattern   string   `json:"pattern,omitempty"`

	MinDuration string `json:"min_duration,omitempty"`
	MaxDuration string `json:"max_duration,omitempty"`
	Precision   string `json:"precision,omitempty"`
	Format      string `json:"format,omitempty"`
	KeyFormat   string `json:"key_format,omitempty"`
}

type formatRow struct {
	Name     string `json:"name"`
	Pattern  string `json:"pattern,omitempty"`
	Unlike   string `json:"unlike,omitempty"`
	Long     string `json:"long,omitempty"`
	Max      *int   `json:"max"`
	Function string `json:"function,omitempty"`
	Other    string `json:"other,omitempty"`
	Reason   string `json:"reason"`
	Hint     string `json:"hint,omitempty"`
}

type ruleRow struct {
	Type     string        `json:"type"`
	Position int           `json:"position"`
	Each     string        `json:"each"`
	When     *string       `json:"applies"`
	Steps    []schema.Step `json:"steps"`
	Wrong    *string       `json:"wrong"`
	Differs  *string       `json:"differs"`
	Test     *string       `json:"test"`
	Quick    bool          `json:"quick"`
	At       string        `json:"at"`
	Reason   string        `json:"reason"`
	Hint     string        `json:"hint,omitempty"`
}

// Known returns the tables of this program.
func Known() Tables {
	r := Tables{Formats: []formatRow{}, Rules: []ruleRow{}, Unsupported: unsupportedRows()}
	for _, k := range kinds.All() {
		row := kindRow{k.Group, k.Name, k.Plural, append([]string{}, k.ShortNames...), k.Versions, k.Namespaced, "", 0}
		if root, ok := schema.Root(k.Group, k.Name); ok {
			row.Type = root.Name
		}
		r.Kinds = append(r.Kinds, row)
	}
	types := schema.Types()
	for _, name := range slices.Sorted(maps.Keys(types)) {
		t := types[name]
		row := typeRow{Type: name, Fields: []string{}, Oneofs: append([][]string{}, t.Oneofs...), Parts: []string{}, PartTypes: []string{}, PartShapes: []string{}}
		for i, f := range t.Fields {
			field := rowOfField(name, i, f)
			row.Fields = append(row.Fields, f.Name)
			r.Fields = append(r.Fields, field)
			if f.Type == schema.Message {
				row.Parts, row.PartTypes, row.PartShapes = append(row.Parts, f.Name), append(row.PartTypes, f.TypeRef), append(row.PartShapes, field.Shape)
			}
		}
		row.Broken, row.Tested = r.addRules(t)
		row.OwnValues, row.OwnParts = optional(ownValues(t)), optional(ownParts(t, deref(row.Broken)))
		r.Types = append(r.Types, row)
		r.Parts = append(r.Parts, partsOf(types, t)...)
	}
	formats := schema.Formats()
	for _, name := range slices.Sorted(maps.Keys(formats)) {
		f := formats[name]
		r.Formats = append(r.Formats, formatRow{f.Name, f.Pattern, f.Unlike, f.Long, f.Max, f.Function, f.Or, f.Reason, f.Hint})
	}
	return r
}

// addRules adds the rows of a type's rules. It returns a predicate that holds if a rule that fits
// into it is broken, and one that holds if another rule has to be checked.
func (r *Tables) addRules(t *schema.Type) (broken, tested *string) {
	var quick, others []string
	for i, rule := range t.Rules {
		predicate, ok := quickPredicate(rule)
		if ok {
			quick = append(quick, predicate)
		} else {
			others = append(others, guard(rule))
		}
		if predicate, ok := repetition(rule); ok {
			quick = append(quick, predicate)
		}
		r.Rules = append(r.Rules, ruleRow{
			Type: t.Name, Position: i, Each: rule.Each, When: optional(rule.When), Steps: append([]schema.Step{}, rule.Steps...),
			Wrong: optional(rule.Wrong), Differs: rule.Unique, Test: optional(rule.Check), Quick: ok, At: rule.At, Reason: rule.Reason, Hint: rule.Hint,
		})
	}
	return optional(anyOf(missing(t), clashing(t), anyOf(quick...))), optional(anyOf(others...))
}

func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func deref(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

func rowOfField(of string, position int, f schema.Field) fieldRow {
	shape := "single"
	switch {
	case f.Repeated:
		shape = "list"
	case f.Map:
		shape = "map"
	}
	row := fieldRow{
		Type: of, Position: position, Name: f.Name, Names: append([]string{f.Name}, f.Aliases...),
		ValueType: f.Type, Ref: f.TypeRef, Shape: shape, KeyType: f.KeyType, Required: f.Required,
		MinItems: f.MinItems, MaxItems: f.MaxItems, Enum: f.Enum, Numbers: f.Numbers, Min: f.Min, Max: f.Max,
		MinLength: f.MinLength, MaxLength: f.MaxLength, Pattern: f.Pattern, MinDuration: f.MinDuration, MaxDuration: f.MaxDuration,
		Precision: f.Precision,
	}
	if f.Format != nil {
		row.Format = f.Format.Name
	}
	if f.KeyFormat != nil {
		row.KeyFormat = f.KeyFormat.Name
	}
	return row
}

// Digest changes whenever the tables do.
func (r Tables) Digest() (string, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("encoding the kinds: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// NumberRules gives the rules a number that identifies them, which is stored with each resource
// that passed them. 0 is for resources that were not checked. Unsupported fields and the order of
// parts are left out, because they change no verdict.
func (r Tables) NumberRules() error {
	rules := r
	rules.Unsupported = nil
	rules.Parts = slices.Clone(r.Parts)
	for i := range rules.Parts {
		rules.Parts[i].Position = 0
	}
	digest, err := rules.Digest()
	if err != nil {
		return err
	}
	number, err := strconv.ParseUint(digest[:7], 16, 32)
	if err != nil {
		return err
	}
	for i := range r.Kinds {
		r.Kinds[i].Rules = int32(number) + 1
	}
	return nil
}

// Write replaces what the database has. The names of the tables are those of the fields, so its
// statements are not in a file of queries.
func (r Tables) Write(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, "SELECT mesh_internal.begin_own_work('registry')"); err != nil {
		return err
	}
	for _, table := range []struct {
		name string
		rows any
	}{
		{"mesh.kinds", r.Kinds},
		{"mesh_internal.schema_types", r.Types},
		{"mesh.schema_fields", r.Fields},
		{"mesh_internal.schema_parts", r.Parts},
		{"mesh.formats", r.Formats},
		{"mesh.rules", r.Rules},
		{"mesh_internal.unsupported", r.Unsupported},
	} {
		rows, err := json.Marshal(table.rows)
		if err != nil {
			return fmt.Errorf("encoding %s: %w", table.name, err)
		}
		if _, err := tx.Exec(ctx, "DELETE FROM "+table.name); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "INSERT INTO "+table.name+" SELECT * FROM jsonb_populate_recordset(NULL::"+table.name+", $1)", rows); err != nil {
			return err
		}
	}
	// The quick check is planned soon, and should not be planned for tables of unknown size.
	_, err := tx.Exec(ctx, "SELECT mesh_internal.end_own_work('registry'); ANALYZE mesh.kinds, mesh_internal.schema_types, mesh.schema_fields, mesh_internal.schema_parts, mesh.formats, mesh.rules")
	return err
}
