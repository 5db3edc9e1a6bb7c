package provider

import (
	"fmt"
	"strconv"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/pgmesh/pgmesh/deploy/terraform/mesh"
	"github.com/pgmesh/pgmesh/deploy/terraform/spec"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/kinds/schema"
)

// document is the type of a whole resource: its spec, and its metadata beside.
type document struct{ whole, spec *schema.Type }

func documentOf(k *kinds.Kind) document {
	root, known := schema.Root(k.Group, k.Name)
	if !known {
		panic(fmt.Sprintf("the schema has no root for %s, generate it anew", k))
	}
	fields := []schema.Field{
		{Name: "name", Type: schema.String},
		{Name: "labels", Type: schema.String, Map: true},
		{Name: "annotations", Type: schema.String, Map: true},
		{Name: "spec", Type: schema.Message, TypeRef: root.Name},
	}
	if k.Namespaced {
		fields = append(fields, schema.Field{Name: "namespace", Type: schema.String})
	}
	return document{&schema.Type{Name: k.Name, Fields: fields}, root}
}

// read reads what Terraform has of a resource: its configuration, its plan or its state.
func (d document) read(value tftypes.Value) (*spec.Reading, error) {
	return spec.Read(d.whole, "", value)
}

// stored writes a resource of the mesh as Terraform has it. What means the same as before is spelled
// as before.
func (d document) stored(r *mesh.Resource, before *spec.Reading, as tftypes.Type) (tftypes.Value, error) {
	normal, problems := schema.Check(d.spec, "spec", r.Spec)
	if len(problems) > 0 {
		return tftypes.Value{}, fmt.Errorf("%s has %s: %s. This provider may be older than the mesh: take a newer one", r.Key, problems[0].Path, problems[0].Reason)
	}
	tree := map[string]any{"name": r.Key.Name, "spec": normal}
	if members, is := normal.(map[string]any); is && len(members) == 0 && before != nil && before.Tree["spec"] == nil {
		delete(tree, "spec") // no block says as much as an empty one
	}
	if r.Key.Namespace != "" {
		tree["namespace"] = r.Key.Namespace
	}
	for name, texts := range map[string]map[string]string{"labels": r.Labels, "annotations": r.Annotations} {
		if len(texts) > 0 {
			tree[name] = object(texts)
		} else if before != nil && before.Tree[name] != nil {
			tree[name] = map[string]any{} // {} says as much as nothing
		}
	}
	if before != nil {
		tree = spec.Keep(d.whole, before.Tree, tree)
	}
	return spec.Value(d.whole, tree, as)
}

func object(texts map[string]string) map[string]any {
	tree := make(map[string]any, len(texts))
	for key, text := range texts {
		tree[key] = text
	}
	return tree
}

// key returns the name of the resource that was read.
func (k *kind) key(r *spec.Reading) kinds.Key {
	name, _ := r.Tree["name"].(string)
	namespace, _ := r.Tree["namespace"].(string)
	return kinds.Key{Kind: k.Kind, Namespace: namespace, Name: name}
}

// resource returns the resource that was read.
func (k *kind) resource(r *spec.Reading) *mesh.Resource {
	tree, _ := r.Tree["spec"].(map[string]any)
	if tree == nil {
		tree = map[string]any{}
	}
	return &mesh.Resource{Key: k.key(r), Labels: texts(r.Tree["labels"]), Annotations: texts(r.Tree["annotations"]), Spec: tree}
}

func texts(tree any) map[string]string {
	members, _ := tree.(map[string]any)
	all := make(map[string]string, len(members))
	for key, member := range members {
		all[key], _ = member.(string)
	}
	return all
}

// written and read are a revision in the private state, which is JSON.
func written(revision int64) []byte { return strconv.AppendInt(nil, revision, 10) }

func read(text []byte) int64 {
	revision, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return 0
	}
	return revision
}
