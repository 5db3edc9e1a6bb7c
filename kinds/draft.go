package kinds

import (
	"fmt"
	"time"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/kinds/schema"
)

// draft is one resource while it is being read.
type draft struct {
	node                      *yaml.Node
	defaultNamespace          string
	secrets                   bool // whether documents of the kind Secret are allowed
	examine                   func(*Resource) []schema.Problem
	kindName, namespace, name string
	resourceVersion, uid      string
	violations                []Violation
}

func (d *draft) add(path, reason, hint string) {
	d.violations = append(d.violations, Violation{Path: path, Reason: reason, Hint: hint})
}

// check checks a part of the document against a type and reports whether it passed.
func (d *draft) check(t *schema.Type, path string, tree any) bool {
	_, problems := schema.Check(t, path, tree)
	for _, p := range problems {
		d.add(p.Path, p.Reason, p.Hint)
	}
	return len(problems) == 0
}

var minOne = 1

// envelope is the type of a whole document without its status.
var envelope = &schema.Type{Fields: []schema.Field{
	{Name: "apiVersion", Type: schema.String, Required: true, MinLength: &minOne},
	{Name: "kind", Type: schema.String, Required: true, MinLength: &minOne},
	{Name: "metadata", Type: schema.Struct},
	{Name: "spec", Type: schema.Struct},
}}

// read reads as much of the document as it can, and returns nil if it found no kind or no name. The
// document is valid if d has no violations.
func (d *draft) read() *Document {
	tree, violations := treeOf(d.node)
	d.violations = violations
	parts, isObject := tree.(map[string]any)
	if isObject {
		delete(parts, "status") // belongs to those who act on the resource, and is not stored
	}
	kind, unknown := d.readKind(parts)
	switch {
	case kind == Secret:
		d.check(secretEnvelope, "", tree)
	case !unknown: // nobody knows what a document of an unknown kind should look like
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
	return &Document{Resource: r, Spec: spec, ResourceVersion: d.resourceVersion, UID: d.uid}
}

// readKind finds the kind. It is nil if the document does not name one, or names an unknown one.
func (d *draft) readKind(parts map[string]any) (kind *Kind, unknown bool) {
	apiVersion, _ := parts["apiVersion"].(string)
	d.kindName, _ = parts["kind"].(string)
	if d.kindName == "" || apiVersion == "" {
		return nil, false // the check of the envelope reports it
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

// readSpec sets the spec of the resource and returns its normal form.
func (d *draft) readSpec(r *Resource, tree any) []byte {
	if _, isObject := tree.(map[string]any); r.Kind == nil || tree != nil && !isObject {
		return nil // already reported
	}
	normal, problems := d.validate(r, tree)
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

// validate checks the structure of the spec. It also checks the rules, unless something around the
// spec is wrong: whoever mistyped "spec" need not be told that routes are missing.
func (d *draft) validate(r *Resource, tree any) (normal any, problems []schema.Problem) {
	root, tree := rootOf(r.Kind, tree)
	if len(d.violations) > 0 {
		return schema.Check(root, "spec", tree)
	}
	return schema.Validate(root, "spec", tree, &Meta{Name: r.Name, Namespace: r.Namespace, Labels: r.Labels, Annotations: r.Annotations})
}

// metadata is the type of the metadata that is kept.
var metadata = &schema.Type{Fields: []schema.Field{
	{Name: "name", Type: schema.String, Required: true, MinLength: &minOne},
	{Name: "namespace", Type: schema.String},
	{Name: "labels", Type: schema.String, Map: true},
	{Name: "annotations", Type: schema.String, Map: true},
	{Name: "creationTimestamp", Type: schema.String},
}}

// ignoredMetadata lists further fields that Kubernetes or the admin API writes. They mean nothing
// here.
var ignoredMetadata = []string{
	"clusterName", "deletionGracePeriodSeconds", "deletionTimestamp", "finalizers", "generateName", "generation",
	"managedFields", "ownerReferences", "resourceVersion", "selfLink", "uid", "updateTimestamp",
}

// ignoredAnnotation holds kubectl's copy of the whole document.
const ignoredAnnotation = "kubectl.kubernetes.io/last-applied-configuration"

func (d *draft) readMetadata(kind *Kind, tree any) *Resource {
	r := &Resource{Kind: kind}
	parts, isObject := tree.(map[string]any)
	if tree != nil && !isObject {
		return r // the check of the envelope reports it
	}
	if parts == nil {
		parts = map[string]any{}
	}
	if version, given := parts["resourceVersion"]; given && version != nil {
		d.resourceVersion = fmt.Sprint(version)
	}
	d.uid, _ = parts["uid"].(string)
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
