package kinds

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/pgmesh/pgmesh/kinds/schema"
)

// Document is one resource as written in a file.
type Document struct {
	Resource *Resource

	// Spec is the spec in the normal form in which it is stored: JSON names, durations in seconds,
	// keys sorted. Unlike the message in Resource it keeps explicit zero values, such as "weight":
	// 0.
	Spec json.RawMessage

	// ResourceVersion is the metadata's resourceVersion as written. Only the caller interprets it.
	ResourceVersion string

	// UID is the metadata's uid. A mesh gives none: a document that has one is of a cluster, and so is its
	// ResourceVersion.
	UID string

	File        string
	Index, Line int // counted from 1; the items of a List have the index of the List

	Fields Lines // where each field is, if the parser keeps that
}

// LineOf returns the line of a path, or of what is nearest above it: that of the document if the parser
// kept no others.
func (d *Document) LineOf(path string) int {
	return cmp.Or(d.Fields.nearest(path), d.Line)
}

// Parser reads documents.
type Parser struct {
	DefaultNamespace string // for a resource without one, if its kind has namespaces

	// Foreign is called for documents of kinds that do not belong to a mesh, which are then
	// skipped. If nil, they are violations.
	Foreign func(apiVersion, kind string)

	// Nameless is called for documents that claim to be no resource, having neither apiVersion nor kind,
	// such as the values of a chart, which are then skipped. If nil, they are violations.
	Nameless func()

	// Secrets allows documents of the kind Secret, which are violations otherwise.
	Secrets bool

	// Lines has documents keep the lines of their fields.
	Lines bool

	// Examine returns further problems of a resource that breaks no rule of its kind. If nil, no
	// more is checked.
	Examine func(*Resource) []schema.Problem
}

// Parse reads documents with the default namespace "default". See Parser.Parse.
func Parse(file string, data []byte) ([]*Document, error) {
	return Parser{DefaultNamespace: "default"}.Parse(file, data)
}

// maxViolations bounds the report for one file: more than this is usually one mistake repeated.
const maxViolations = 100

// Parse reads YAML or JSON: one document or several, resources or Lists of them. If anything is
// wrong with any of them it returns no documents, and all violations as one Errors. The file name
// is used only in those.
func (p Parser) Parse(file string, data []byte) ([]*Document, error) {
	f := &parsing{Parser: p, file: file, seen: map[Key]*Document{}}
	nodes, broken := readNodes(data)
	for i, node := range nodes {
		f.document(i+1, node)
	}
	if broken != nil {
		f.add(Violation{File: file, Document: len(nodes) + 1, Line: broken.line, Reason: "not valid YAML: " + broken.reason})
	}
	if f.dropped > 0 {
		f.violations = append(f.violations, Violation{File: file, Reason: fmt.Sprintf("%d more violations are not shown", f.dropped)})
	}
	if len(f.violations) > 0 {
		return nil, f.violations
	}
	return f.documents, nil
}

// parsing is the state of reading one file.
type parsing struct {
	Parser
	file       string
	documents  []*Document
	seen       map[Key]*Document
	violations Errors
	dropped    int
}

func (f *parsing) add(v Violation) {
	if len(f.violations) == maxViolations {
		f.dropped++
		return
	}
	f.violations = append(f.violations, v)
}

func (f *parsing) document(index int, node *yaml.Node) {
	node = resolve(node)
	if isNull(node) {
		return // only comments
	}
	items, isList := listItems(node)
	if !isList {
		f.resource(index, node)
		return
	}
	for _, item := range items {
		f.resource(index, resolve(item))
	}
}

// listItems returns the items of a List, as "kubectl get -o yaml" writes it.
func listItems(node *yaml.Node) ([]*yaml.Node, bool) {
	kind, items := member(node, "kind"), member(node, "items")
	if kind == nil || items == nil || kind.Value != "List" || items.Kind != yaml.SequenceNode {
		return nil, false
	}
	return items.Content, true
}

func (f *parsing) resource(index int, node *yaml.Node) {
	if v, kumas := ofKuma(node); kumas {
		v.File, v.Document, v.Line = f.file, index, node.Line
		f.add(v)
		return
	}
	if f.Nameless != nil && isNameless(node) {
		f.Nameless()
		return
	}
	if f.Foreign != nil {
		if apiVersion, kind, foreign := isForeign(node); foreign && !f.isSecret(apiVersion, kind) {
			f.Foreign(apiVersion, kind)
			return
		}
	}
	d := &draft{node: node, defaultNamespace: f.DefaultNamespace, secrets: f.Secrets, examine: f.Examine}
	document := d.read()
	if document != nil {
		document.File, document.Index, document.Line = f.file, index, node.Line
		if f.Lines {
			document.Fields = linesOf(d.node)
		}
		f.keep(d, document)
	}
	for _, v := range d.sortedViolations() {
		v.File, v.Document = f.file, index
		f.add(v)
	}
}

// keep adds the document, unless it has violations or the file already has a resource of the same
// key.
func (f *parsing) keep(d *draft, document *Document) {
	key := document.Resource.Key()
	if first, dup := f.seen[key]; dup {
		d.add("metadata.name", fmt.Sprintf("duplicate of document %d, line %d", first.Index, first.Line), "")
		return
	}
	f.seen[key] = document
	if len(d.violations) == 0 {
		f.documents = append(f.documents, document)
	}
}

// sortedViolations returns the violations in the order of their lines, with what is known of the
// resource's name.
func (d *draft) sortedViolations() []Violation {
	if len(d.violations) == 0 {
		return nil
	}
	lines := linesOf(d.node)
	for i := range d.violations {
		v := &d.violations[i]
		v.Kind, v.Namespace, v.Name = d.kindName, d.namespace, d.name
		if v.Line == 0 {
			v.Line = lines.nearest(v.Path)
		}
	}
	slices.SortStableFunc(d.violations, func(a, b Violation) int { return a.Line - b.Line })
	return d.violations
}
