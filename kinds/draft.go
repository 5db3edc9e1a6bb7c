package kinds

import (
	"fmt"
	"time"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/kinds/schema"
)

// draft is one resource while it is read.
type draft struct {
	node                      *yaml.Node
	defaultNamespace          string
	secrets                   bool // may come
	examine                   func(*Resource) []schema.Problem
	kindName, namespace, name string
	resourceVersion           string
	violations                []Violation
}

func (d *draft) add(path, reason, hint string) {
	d.violations = append(d.violations, Violation{Path: path, Reason: reason, Hint: hint})
}

// check checks a part of the document against a type and says whether it is as it should be.
func (d *draft) check(t *schema.Type, path string, tree any) bool {
	_, problems := schema.Check(t, path, tree)
	for _, p := range problems {
		d.add(p.Path, p.Reason, p.Hint)
	}
	return len(problems) == 0
}

var one = 1

// envelope is the type of a whole document, status aside.
var envelope = &schema.Type{Fields: []schema.Field{
	{Name: "apiVersion", Type: schema.String, Required: true, MinLength: &one},
	{Name: "kind", Type: schema.String, Required: true, MinLength: &one},
	{Name: "metadata", Type: schema.Struct},
	{Name: "spec", Type: schema.Struct},
}}

// read reads the document as far as it can be read, nil if that is not as far as its name. It is sound if there are no violations.
func (d *draft) read() *Document {
	tree, violations := treeOf(d.node)
	d.violations = violations
	parts, isObject := tree.(map[string]any)
	if isObject {
		delete(parts, "status") // is for reading, and belongs to those who act on the resource
	}
	kind, unknown := d.readKind(parts)
	switch {
	case kind == Secret:
		d.check(secretEnvelope, "", tree)
	case !unknown: // who knows what a document of an unknown kind should look like
		d.check(envelope, "", tree)
	}
	if !isObject {
		return nil
	}
	r := d.readMetadata(kind, parts["metadata"])
	if kind == Secret {
		return d.readSecret(r, parts)
	}
	spec := d.readSpec(r, parts["spec"])
	if r.Kind == nil || r.Name == "" {
		return nil
	}
	return &Document{Resource: r, Spec: spec, ResourceVersion: d.resourceVersion}
}

// readKind finds the kind, nil if it is not named or unknown.
func (d *draft) readKind(parts map[string]any) (kind *Kind, unknown bool) {
	apiVersion, _ := parts["apiVersion"].(string)
	d.kindName, _ = parts["kind"].(string)
	if d.kindName == "" || apiVersion == "" {
		return nil, false // is told by the check of the envelope
	}
	if d.secrets && apiVersion == secretVersion && d.kindName == Secret.Name {
		return Secret, false
	}
	kind, err := ByAPIVersion(apiVersion, d.kindName)
	if err == nil {
		return kind, false
	}
	path := "kind"
	reason, hint, known := explainUnknown(apiVersion, d.kindName)
	if known {
		path = "apiVersion"
	}
	d.add(path, reason, hint)
	return nil, !known
}

// readSpec puts the spec into the resource and returns its normal form.
func (d *draft) readSpec(r *Resource, tree any) []byte {
	if _, isObject := tree.(map[string]any); r.Kind == nil || tree != nil && !isObject {
		return nil // told before
	}
	normal, problems := d.judge(r, tree)
	d.violations = append(d.violations, violations(r.Kind, problems)...)
	if len(problems) > 0 {
		return nil
	}
	spec, err := compacted(normal)
	var message proto.Message
	if err == nil {
		message, err = r.Kind.decodeNormal(spec)
	}
	if err != nil {
		d.add("spec", err.Error(), "")
		return spec
	}
	r.Spec = SpecOf(message)
	if d.examine != nil {
		for _, p := range d.examine(r) {
			d.add(p.Path, p.Reason, p.Hint)
		}
	}
	return spec
}

// judge checks the spec. It asks for rules only if nothing was found wrong around it: who mistyped "spec" need not be told that routes are missing.
func (d *draft) judge(r *Resource, tree any) (normal any, problems []schema.Problem) {
	root, tree := rootOf(r.Kind, tree)
	if len(d.violations) > 0 {
		return schema.Check(root, "spec", tree)
	}
	return schema.Judge(root, "spec", tree, &Meta{Name: r.Name, Namespace: r.Namespace, Labels: r.Labels, Annotations: r.Annotations})
}

// metadata is the type of what is kept of the metadata.
var metadata = &schema.Type{Fields: []schema.Field{
	{Name: "name", Type: schema.String, Required: true, MinLength: &one},
	{Name: "namespace", Type: schema.String},
	{Name: "labels", Type: schema.String, Map: true},
	{Name: "annotations", Type: schema.String, Map: true},
	{Name: "creationTimestamp", Type: schema.String},
}}

// ignoredMetadata is what Kubernetes writes beside that, or the admin API, and means nothing here.
var ignoredMetadata = []string{
	"clusterName", "deletionGracePeriodSeconds", "deletionTimestamp", "finalizers", "generateName", "generation",
	"managedFields", "ownerReferences", "resourceVersion", "selfLink", "uid", "updateTimestamp",
}

// ignoredAnnotation is a copy of the whole document, by kubectl.
const ignoredAnnotation = "kubectl.kubernetes.io/last-applied-configuration"

func (d *draft) readMetadata(kind *Kind, tree any) *Resource {
	r := &Resource{Kind: kind}
	parts, isObject := tree.(map[string]any)
	if tree != nil && !isObject {
		return r // is told by the check of the envelope
	}
	if parts == nil {
		parts = map[string]any{}
	}
	if version, given := parts["resourceVersion"]; given && version != nil {
		d.resourceVersion = fmt.Sprint(version)
	}
	for _, name := range ignoredMetadata {
		delete(parts, name)
	}
	if annotations, isObject := parts["annotations"].(map[string]any); isObject {
		delete(annotations, ignoredAnnotation)
	}
	sound := d.check(metadata, "metadata", parts)
	r.Name, _ = parts["name"].(string)
	r.Namespace, _ = parts["namespace"].(string)
	switch {
	case r.Namespace != "":
	case kind != nil && kind.Bare:
		r.Namespace = MeshNamespace
	case kind == nil || kind.Namespaced:
		r.Namespace = d.defaultNamespace
	}
	d.namespace, d.name = r.Namespace, r.Name
	r.Labels, r.Annotations = stringMap(parts["labels"]), stringMap(parts["annotations"])
	r.CreateTime = d.readTime(parts["creationTimestamp"])
	if sound && kind != nil {
		d.violations = append(d.violations, CheckMetadata(r)...)
	}
	return r
}

func (d *draft) readTime(v any) time.Time {
	text, _ := v.(string)
	if text == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		d.add("metadata.creationTimestamp", `"`+text+`" is not a time`, `write it as "2006-01-02T15:04:05Z"`)
	}
	return t
}

func stringMap(v any) map[string]string {
	members, _ := v.(map[string]any)
	if len(members) == 0 {
		return nil
	}
	m := make(map[string]string, len(members))
	for key, value := range members {
		m[key], _ = value.(string)
	}
	return m
}
