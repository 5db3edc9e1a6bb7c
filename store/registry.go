package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/kinds/schema"
)

// registry is what the database is told about kinds: rows of the tables they are named after.
type registry struct {
	Kinds  []kindRow  `json:"kinds"`
	Types  []typeRow  `json:"types"`
	Fields []fieldRow `json:"fields"`
}

type kindRow struct {
	APIGroup   string   `json:"api_group"`
	Kind       string   `json:"kind"`
	Plural     string   `json:"plural"`
	ShortNames []string `json:"short_names"`
	Versions   []string `json:"versions"`
	Namespaced bool     `json:"namespaced"`
	Type       string   `json:"type"`
}

type typeRow struct {
	Type   string     `json:"type"`
	Fields []string   `json:"fields"`
	Oneofs [][]string `json:"oneofs"`
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
}

// knownRegistry is what this program knows.
func knownRegistry() registry {
	var r registry
	for _, k := range kinds.All() {
		row := kindRow{k.Group, k.Name, k.Plural, append([]string{}, k.ShortNames...), k.Versions, k.Namespaced, ""}
		if root, ok := schema.Root(k.Group, k.Name); ok {
			row.Type = root.Name
		}
		r.Kinds = append(r.Kinds, row)
	}
	for name, t := range schema.Types() {
		row := typeRow{name, []string{}, append([][]string{}, t.Oneofs...)}
		for i, f := range t.Fields {
			row.Fields = append(row.Fields, f.Name)
			r.Fields = append(r.Fields, rowOfField(name, i, f))
		}
		r.Types = append(r.Types, row)
	}
	return r
}

func rowOfField(of string, position int, f schema.Field) fieldRow {
	shape := "single"
	switch {
	case f.Repeated:
		shape = "list"
	case f.Map:
		shape = "map"
	}
	return fieldRow{
		Type: of, Position: position, Name: f.Name, Names: append([]string{f.Name}, f.Aliases...),
		ValueType: f.Type, Ref: f.TypeRef, Shape: shape, KeyType: f.KeyType, Required: f.Required,
		MinItems: f.MinItems, MaxItems: f.MaxItems, Enum: f.Enum, Numbers: f.Numbers, Min: f.Min, Max: f.Max,
		MinLength: f.MinLength, MaxLength: f.MaxLength, Pattern: f.Pattern,
	}
}

// digest changes whenever what the database is told would.
func (r registry) digest() (string, error) {
	text, err := json.Marshal(r.Kinds)
	if err != nil {
		return "", fmt.Errorf("encoding the kinds: %w", err)
	}
	sum := sha256.Sum256(append(text, schema.JSON...))
	return hex.EncodeToString(sum[:]), nil
}

// syncRegistry makes the database know the kinds that this program knows, and no others. It writes only if they differ.
func syncRegistry(ctx context.Context, conn *pgx.Conn) error {
	known := knownRegistry()
	digest, err := known.digest()
	if err != nil {
		return err
	}
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		changed, err := tx.Exec(ctx, "UPDATE mesh.installation SET registry_digest = $1 WHERE registry_digest <> $1", digest)
		if err != nil || changed.RowsAffected() == 0 {
			return err
		}
		return known.write(ctx, tx)
	})
	return explain("writing the kinds to the database", err)
}

func (r registry) write(ctx context.Context, tx pgx.Tx) error {
	for _, table := range []struct {
		name string
		rows any
	}{{"kinds", r.Kinds}, {"schema_types", r.Types}, {"schema_fields", r.Fields}} {
		rows, err := json.Marshal(table.rows)
		if err != nil {
			return fmt.Errorf("encoding %s: %w", table.name, err)
		}
		if _, err := tx.Exec(ctx, "DELETE FROM mesh."+table.name); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "INSERT INTO mesh."+table.name+" SELECT * FROM jsonb_populate_recordset(NULL::mesh."+table.name+", $1)", rows); err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, "SELECT mesh.derive_schema_members()")
	return err
}
