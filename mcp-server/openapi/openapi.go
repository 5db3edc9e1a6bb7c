// Package openapi describes the admin API over HTTP as OpenAPI, for programs that make clients or
// try it out. It is made of what the API itself is made of: the paths of http.yaml, the
// descriptors of the messages, and the comments of the .proto files. It refers to the JSON Schemas of the kinds, which are served beside
// it.
package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/pgmesh/pgmesh/internal/kit/version"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// object is a JSON object. Its members are written in the order of their names.
type object = map[string]any

// paths are the rules of http.yaml.
type paths struct {
	HTTP struct{ Rules []rule } `yaml:"http"`
}

// rule has the paths of a call.
type rule struct {
	binding  `yaml:",inline"`
	Selector string
	Body     string
	Answer   string    `yaml:"response_body"` // the field that is answered, "" for the whole message
	More     []binding `yaml:"additional_bindings"`
}

// binding is a method and a path.
type binding struct{ Get, Post, Put, Delete string }

func (b binding) methodAndPath() (method, path string) {
	for method, path := range map[string]string{"get": b.Get, "post": b.Post, "put": b.Put, "delete": b.Delete} {
		if path != "" {
			return method, path
		}
	}
	return "", ""
}

// Document returns the description, as JSON.
func Document() ([]byte, error) {
	var all paths
	if err := yaml.Unmarshal([]byte(adminv1.Paths), &all); err != nil {
		return nil, fmt.Errorf("read the paths of the admin API: %w", err)
	}
	w := writer{messages: object{}, paths: map[string]object{}, tags: map[string]object{}}
	for _, r := range all.HTTP.Rules {
		if err := w.add(r); err != nil {
			return nil, fmt.Errorf("describe %s: %w", r.Selector, err)
		}
	}
	return json.MarshalIndent(object{
		"openapi": "3.1.0",
		"info": object{
			"title": "The admin API of pgmesh", "version": version.Of(),
			"description": "Reading, changing and following the configuration of a mesh, and its past. docs/admin-api.md tells of it with examples.",
			"license":     object{"name": "Apache-2.0", "identifier": "Apache-2.0"},
		},
		"servers":  []object{{"url": "/"}},
		"security": []object{{}, {"token": []string{}}, {"certificate": []string{}}},
		"tags":     slices.SortedFunc(maps.Values(w.tags), func(a, b object) int { return strings.Compare(a["name"].(string), b["name"].(string)) }),
		"paths":    w.paths,
		"components": object{
			"schemas": w.messages,
			"securitySchemes": object{
				"token":       object{"type": "http", "scheme": "bearer", "description": "A token of mcp-client token create."},
				"certificate": object{"type": "mutualTLS", "description": "A certificate of the mesh or of an authority that the server is told of."},
			},
		},
	}, "", "  ")
}

// writer collects the paths, the messages that they use, and the services that answer, as tags.
type writer struct {
	messages    object
	paths, tags map[string]object
}

func (w *writer) add(r rule) error {
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(r.Selector))
	if err != nil {
		return err
	}
	call, is := found.(protoreflect.MethodDescriptor)
	if !is {
		return fmt.Errorf("it is no call, but %T", found)
	}
	for i, b := range append([]binding{r.binding}, r.More...) {
		method, path := b.methodAndPath()
		if w.paths[path] == nil {
			w.paths[path] = object{}
		}
		id := string(call.Parent().Name()) + "_" + string(call.Name())
		if i > 0 {
			id += fmt.Sprint("_", i+1)
		}
		w.paths[path][method] = w.operation(call, r, id, path)
	}
	return nil
}

// placeholder is a field of the request in a path.
var placeholder = regexp.MustCompile(`\{([^}]+)\}`)

// tag is the service of a call, in words.
func (w *writer) tag(call protoreflect.MethodDescriptor) string {
	name := sentence(strings.TrimSuffix(string(call.Parent().Name()), "Service"))
	if w.tags[name] == nil {
		w.tags[name] = describe(object{"name": name}, call.Parent())
	}
	return name
}

func (w *writer) operation(call protoreflect.MethodDescriptor, r rule, id, path string) object {
	said := map[string]bool{r.Body: true}
	parameters := []object{}
	for _, m := range placeholder.FindAllStringSubmatch(path, -1) {
		said[m[1]] = true
		parameters = append(parameters, object{"name": m[1], "in": "path", "required": true, "schema": w.pathField(call.Input(), m[1])})
	}
	if r.Body != "*" {
		parameters = append(parameters, w.query(call.Input(), "", said)...)
	}
	out := object{
		"operationId": id, "summary": sentence(string(call.Name())), "tags": []string{w.tag(call)},
		"parameters": parameters,
		"responses": object{
			"200":     object{"description": "It is done.", "content": w.answer(call, r.Answer)},
			"default": object{"description": "Why it was not done: docs/admin-api.md#errors.", "content": object{"application/json": object{"schema": status}}},
		},
	}
	if body := w.body(call.Input(), r.Body); body != nil {
		out["requestBody"] = body
	}
	return describe(out, call)
}

// status is google.rpc.Status.
var status = object{"type": "object", "properties": object{
	"code": object{"type": "integer"}, "message": object{"type": "string"}, "details": object{"type": "array", "items": object{"type": "object"}},
}}

// pathField describes a part of a path. It is a text, also where a field is a list of them.
func (w *writer) pathField(m protoreflect.MessageDescriptor, name string) object {
	first, rest, nested := strings.Cut(name, ".")
	f := m.Fields().ByName(protoreflect.Name(first))
	switch {
	case f == nil, f.IsList():
		return object{"type": "string"}
	case nested:
		return w.pathField(f.Message(), rest)
	}
	return w.value(f)
}

// query lists the parameters of a query: fields that neither the path nor the body has.
func (w *writer) query(m protoreflect.MessageDescriptor, before string, said map[string]bool) (all []object) {
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		name := before + string(f.Name())
		switch {
		case said[name], f.IsMap():
		case f.Message() != nil && wellKnown(f.Message()) == nil:
			if !f.IsList() && before == "" {
				all = append(all, w.query(f.Message(), name+".", said)...)
			}
		default:
			all = append(all, object{"name": before + f.JSONName(), "in": "query", "schema": w.field(f)})
		}
	}
	return all
}

func (w *writer) body(m protoreflect.MessageDescriptor, field string) object {
	switch field {
	case "":
		return nil
	case "*":
		return object{"content": inBothForms(w.reference(m))}
	case "documents":
		return object{"required": true, "description": "Resources: one document or many, or a List.", "content": inBothForms(object{"$ref": "#/components/schemas/Resource"})}
	}
	return object{"required": true, "content": inBothForms(w.value(m.Fields().ByName(protoreflect.Name(field))))}
}

func inBothForms(schema object) object {
	return object{"application/json": object{"schema": schema}, "application/yaml": object{"schema": schema}}
}

func (w *writer) answer(call protoreflect.MethodDescriptor, field string) object {
	w.resource()
	schema := w.reference(call.Output())
	if field != "" {
		schema = w.field(call.Output().Fields().ByName(protoreflect.Name(field)))
	}
	if call.IsStreamingServer() {
		return object{"application/x-ndjson": object{"schema": schema}, "application/yaml": object{"schema": schema}}
	}
	return inBothForms(schema)
}

// sentence writes ListRegisteredMachines as "List registered machines".
func sentence(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte(' ')
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}
