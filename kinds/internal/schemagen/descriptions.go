package main

import (
	"encoding/json"
	"strings"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/kinds/schema"
)

// descriptions are the texts of the CRDs, by types and fields.
type descriptions struct {
	types map[string]*schema.Type
	texts map[string]map[string]string
}

// describe collects what CRDs say of the fields of all kinds.
func describe(table *schema.Table, crds []crd) ([]byte, error) {
	d := descriptions{table.Types, map[string]map[string]string{}}
	for _, k := range kinds.All() {
		if spec := findSpec(crds, k); spec != nil {
			d.add(table.Roots[k.Group+"/"+k.Name], spec)
		}
	}
	text, err := json.Marshal(d.texts)
	return compressed(text), err
}

func (d *descriptions) add(name string, from *openAPI) {
	t := d.types[name]
	if t == nil || d.texts[name] != nil {
		return
	}
	d.texts[name] = map[string]string{}
	for _, f := range t.Fields {
		value := from.Properties[f.Name]
		if value == nil {
			continue
		}
		if text := firstParagraph(value.Description); text != "" {
			d.texts[name][f.Name] = text
		}
		if f.Type == schema.Message {
			d.add(f.TypeRef, value.single())
		}
	}
}

// single is the schema of an item of a list or a map, or of the value itself.
func (o *openAPI) single() *openAPI {
	switch {
	case o.Items != nil:
		return o.Items.single()
	case o.AdditionalProperties != nil:
		return o.AdditionalProperties.single()
	}
	return o
}

// firstParagraph is as much as a tooltip has room for, on one line.
func firstParagraph(text string) string {
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n\n")
	return strings.Join(strings.Fields(text), " ")
}
