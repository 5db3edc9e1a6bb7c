// Package jsonschema writes the kinds of resource as JSON Schema, for editors and for checks of
// files without pgmesh. It is made of the table that pgmesh itself checks resources with.
//
// A schema says what JSON Schema can say, and refuses nothing that pgmesh takes, but for two
// things: null, which pgmesh takes for an absent field and an editor should tell of, and a document
// without its metadata. Rules between fields, and what functions check, are left to pgmesh:
// mcp-client validate.
//
// It is draft 7 (docs/decisions/0074-schemas-are-of-draft-7.md).
package jsonschema

import (
	"encoding/json"
	"strings"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/kinds/schema"
)

// draft is the version of JSON Schema.
const draft = "http://json-schema.org/draft-07/schema#"

// object is a JSON object. Its members are written in the order of their names.
type object = map[string]any

// Of returns the schema of a kind, which is complete in itself.
func Of(k *kinds.Kind) []byte {
	w := writer{definitions: object{}}
	spec, required := object{"type": "object"}, []string{"apiVersion", "kind", "metadata"}
	if root, known := schema.Root(k.Group, k.Name); known {
		spec = w.reference(root)
		if hasRequired(root) {
			required = append(required, "spec")
		}
	}
	var versions []string
	for _, v := range k.Versions {
		versions = append(versions, k.Group+"/"+v)
	}
	return render(object{
		"$schema": draft, "title": k.Name, "type": "object", "additionalProperties": false, "required": required,
		"properties": object{
			"apiVersion": object{"type": "string", "enum": versions},
			"kind":       object{"type": "string", "enum": []string{k.Name}},
			"metadata":   metadata(k),
			"spec":       spec,
			"status":     object{"description": "What others say of the resource. It is not stored."},
		},
		"definitions": w.definitions,
	})
}

func hasRequired(t *schema.Type) bool {
	for i := range t.Fields {
		if t.Fields[i].Required {
			return true
		}
	}
	return false
}

// metadata describes what is read of the metadata. The rest, which clusters write, is left alone.
func metadata(k *kinds.Kind) object {
	texts := object{"type": "object", "additionalProperties": object{"type": "string"}}
	properties := object{"name": object{"type": "string", "minLength": 1}, "labels": texts, "annotations": texts}
	if k.Namespaced {
		properties["namespace"] = object{"type": "string"}
	}
	return object{"type": "object", "properties": properties, "required": []string{"name"}}
}

// All returns a schema for documents of any kind. It refers to those of the kinds by their Path.
func All() []byte {
	var cases []object
	for _, k := range kinds.All() {
		for _, v := range k.Versions {
			cases = append(cases, object{
				"if":   object{"properties": object{"apiVersion": object{"const": k.Group + "/" + v}, "kind": object{"const": k.Name}}, "required": []string{"apiVersion", "kind"}},
				"then": object{"$ref": Path(k, v)},
			})
		}
	}
	return render(object{
		"$schema": draft, "title": "A resource of pgmesh", "type": "object", "required": []string{"apiVersion", "kind"},
		"properties": object{"apiVersion": object{"type": "string"}, "kind": object{"type": "string", "enum": kindNames()}},
		"allOf":      cases,
	})
}

func kindNames() (names []string) {
	seen := map[string]bool{}
	for _, k := range kinds.All() {
		if !seen[k.Name] {
			seen[k.Name] = true
			names = append(names, k.Name)
		}
	}
	return names
}

// AllPath is where All is.
const AllPath = "all.json"

// Path is where the schema of a version of a kind is, as kubeconform and others look for it:
// networking.istio.io/virtualservice_v1.json.
func Path(k *kinds.Kind, version string) string {
	return k.Group + "/" + strings.ToLower(k.Name) + "_" + version + ".json"
}

// Files returns all schemas by their paths.
func Files() map[string][]byte {
	files := map[string][]byte{AllPath: All()}
	for _, k := range kinds.All() {
		text := Of(k)
		for _, v := range k.Versions {
			files[Path(k, v)] = text
		}
	}
	return files
}

func render(o object) []byte {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(o); err != nil {
		panic(err) // strings, numbers, lists and objects alone
	}
	return []byte(b.String())
}
