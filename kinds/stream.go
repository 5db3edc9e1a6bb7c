package kinds

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pgmesh/pgmesh/internal/kit/nearest"
)

// Stream reads documents like Parse, but calls each for every document, or for its violations, as
// soon as it is read. So a file may be larger than memory. Stream continues after violations, as
// far as the syntax allows, and returns the first error of each or of reading.
func (p Parser) Stream(file string, in io.Reader, each func(*Document, Errors) error) error {
	f := &parsing{Parser: p, file: file, seen: map[Key]*Document{}}
	buffered := bufio.NewReaderSize(in, 64<<10)
	if startsJSON(buffered) {
		return f.streamJSON(buffered, each)
	}
	documents := yaml.NewDecoder(buffered)
	for index := 1; ; index++ {
		node := &yaml.Node{}
		switch err := documents.Decode(node); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			broken := explainSyntax(err)
			return each(nil, Errors{{File: file, Document: index, Line: broken.line, Reason: "not valid YAML: " + broken.reason}})
		}
		f.document(index, node)
		if err := f.flush(each); err != nil {
			return err
		}
	}
}

// startsJSON reports whether the first character that is no space is "{".
func startsJSON(in *bufio.Reader) bool {
	for n := 1; ; n *= 2 {
		ahead, err := in.Peek(n)
		if text := bytes.TrimLeft(ahead, " \t\r\n"); len(text) > 0 || err != nil {
			return bytes.HasPrefix(text, []byte("{"))
		}
	}
}

// streamJSON reads the whole file at once: in JSON a set is a single List, and so one value. YAML
// can begin like JSON, too.
func (f *parsing) streamJSON(in io.Reader, each func(*Document, Errors) error) error {
	data, err := io.ReadAll(in)
	if err != nil {
		return fmt.Errorf("read %s: %w", f.file, err)
	}
	nodes, broken := readNodes(data)
	for i, node := range nodes {
		f.document(i+1, node)
		if err := f.flush(each); err != nil {
			return err
		}
	}
	if broken == nil {
		return nil
	}
	return each(nil, Errors{{File: f.file, Document: len(nodes) + 1, Line: broken.line, Reason: "not valid YAML: " + broken.reason}})
}

// flush passes on what was read since the last call. Of those documents it keeps only their places,
// to report duplicates.
func (f *parsing) flush(each func(*Document, Errors) error) error {
	documents, violations := f.documents, f.violations
	f.documents, f.violations = nil, nil
	for _, d := range documents {
		f.seen[d.Resource.Key()] = &Document{Index: d.Index, Line: d.Line}
		if err := each(d, nil); err != nil {
			return err
		}
	}
	if len(violations) > 0 {
		return each(nil, violations)
	}
	return nil
}

// isForeign reports whether a document's kind does not belong to a mesh. A near miss of one of our
// kinds is a mistake, and not foreign.
func isForeign(node *yaml.Node) (apiVersion, kind string, foreign bool) {
	version, name := member(node, "apiVersion"), member(node, "kind")
	if version == nil || name == nil || version.Value == "" || name.Value == "" {
		return "", "", false
	}
	if _, ours := byTypeURL()[version.Value+"/"+name.Value]; ours {
		return "", "", false
	}
	group, _, _ := strings.Cut(version.Value, "/")
	if !slices.ContainsFunc(registry, func(k *Kind) bool { return k.Group == group }) {
		return version.Value, name.Value, true
	}
	return version.Value, name.Value, nearest.Word(name.Value, kindNames()) == ""
}

// YAML writes the document in the usual order, with the spec as stored and its keys sorted.
func (d *Document) YAML() ([]byte, error) {
	r := d.Resource
	decoder := json.NewDecoder(bytes.NewReader(d.Spec))
	decoder.UseNumber()
	var tree any
	if err := decoder.Decode(&tree); err != nil {
		return nil, fmt.Errorf("read the spec of %s: %w", r.Key(), err)
	}
	spec, err := compacted(tree)
	if err != nil {
		return nil, fmt.Errorf("write %s as YAML: %w", r.Key(), err)
	}
	node, err := yamlNode(document{APIVersion: r.Kind.APIVersion(), Kind: r.Kind.Name, Metadata: documentMetadata{
		Name: r.Name, Namespace: r.Namespace, Labels: r.Labels, Annotations: r.Annotations,
	}, Spec: spec})
	if err != nil {
		return nil, fmt.Errorf("write %s as YAML: %w", r.Key(), err)
	}
	return encodeYAML(node)
}
