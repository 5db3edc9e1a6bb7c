package kinds

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"time"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
)

// Writer writes resources with what is known of them beside.
type Writer struct {
	// Status is a resource's status, a JSON value; nil for none. Nobody reads it back: parsing
	// leaves it out.
	Status func(*Resource) json.RawMessage
	// Version is a resource's metadata.resourceVersion, "" for none; a nil Version gives none to any.
	Version func(*Resource) string
}

// plain writes resources alone.
var plain = Writer{Status: func(*Resource) json.RawMessage { return nil }}

// MarshalYAML writes each resource as a YAML document. The result parses back to the same
// resources.
func MarshalYAML(resources ...*Resource) ([]byte, error) { return plain.YAML(resources...) }

// YAML is MarshalYAML, with statuses.
func (w Writer) YAML(resources ...*Resource) ([]byte, error) {
	if len(resources) == 0 {
		return nil, nil // the encoder always writes at least one document
	}
	nodes := make([]*yaml.Node, len(resources))
	for i, r := range resources {
		document, err := w.document(r)
		if err == nil {
			nodes[i], err = yamlNode(document)
		}
		if err != nil {
			return nil, fmt.Errorf("write %s as YAML: %w", r.Key(), err)
		}
	}
	return encodeYAML(nodes...)
}

func encodeYAML(nodes ...*yaml.Node) ([]byte, error) {
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	encoder.CompactSeqIndent()
	for _, node := range nodes {
		if err := encoder.Encode(node); err != nil {
			return nil, fmt.Errorf("write YAML: %w", err)
		}
	}
	if err := encoder.Close(); err != nil {
		return nil, fmt.Errorf("write YAML: %w", err)
	}
	return b.Bytes(), nil
}

// MarshalJSON writes one resource as an object and any other number as a List, like kubectl.
func MarshalJSON(resources ...*Resource) ([]byte, error) { return plain.JSON(resources...) }

// JSON is MarshalJSON, with statuses.
func (w Writer) JSON(resources ...*Resource) ([]byte, error) {
	if len(resources) != 1 {
		return w.List(resources...)
	}
	one, err := w.document(resources[0])
	if err != nil {
		return nil, err
	}
	return indented(one)
}

// MarshalList writes any number of resources as a List, for programs that want one shape whatever
// the number.
func MarshalList(resources ...*Resource) ([]byte, error) { return plain.List(resources...) }

// List is MarshalList, with statuses.
func (w Writer) List(resources ...*Resource) ([]byte, error) {
	documents := make([]document, len(resources))
	for i, r := range resources {
		var err error
		if documents[i], err = w.document(r); err != nil {
			return nil, err
		}
	}
	return indented(struct {
		APIVersion string     `json:"apiVersion"`
		Kind       string     `json:"kind"`
		Items      []document `json:"items"`
	}{"v1", "List", documents})
}

// SpecJSON returns the spec as compact JSON. Equal specs give equal bytes.
func (r *Resource) SpecJSON() (json.RawMessage, error) {
	spaced, err := protojson.Marshal(r.Spec.Message())
	if err != nil {
		return nil, fmt.Errorf("write the spec of %s as JSON: %w", r.Key(), err)
	}
	var spec bytes.Buffer // protojson inserts spaces at random
	if err := json.Compact(&spec, spaced); err != nil {
		return nil, fmt.Errorf("write the spec of %s as JSON: %w", r.Key(), err)
	}
	return spec.Bytes(), nil
}

// document has the fields of a resource in their usual order.
type document struct {
	APIVersion string           `json:"apiVersion"`
	Kind       string           `json:"kind"`
	Metadata   documentMetadata `json:"metadata"`
	Spec       json.RawMessage  `json:"spec"`
	Status     json.RawMessage  `json:"status,omitempty"`
}

type documentMetadata struct {
	Name              string            `json:"name"`
	Namespace         string            `json:"namespace,omitempty"`
	Labels            map[string]string `json:"labels,omitempty"`
	Annotations       map[string]string `json:"annotations,omitempty"`
	CreationTimestamp string            `json:"creationTimestamp,omitempty"`
	ResourceVersion   string            `json:"resourceVersion,omitempty"`
}

func (w Writer) document(r *Resource) (document, error) {
	spec, err := r.SpecJSON()
	if err != nil {
		return document{}, err
	}
	d := document{r.Kind.APIVersion(), r.Kind.Name, documentMetadata{
		Name: r.Name, Namespace: r.Namespace, Labels: r.Labels, Annotations: r.Annotations,
	}, spec, w.Status(r)}
	if !r.CreateTime.IsZero() {
		d.Metadata.CreationTimestamp = r.CreateTime.UTC().Format(time.RFC3339Nano)
	}
	if w.Version != nil {
		d.Metadata.ResourceVersion = w.Version(r)
	}
	return d, nil
}

// compacted encodes a value as JSON without spaces, the keys of maps sorted.
func compacted(v any) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

func indented(v any) ([]byte, error) {
	compact, err := compacted(v)
	if err != nil {
		return nil, fmt.Errorf("write JSON: %w", err)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, compact, "", "  "); err != nil {
		return nil, fmt.Errorf("write JSON: %w", err)
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

// yamlNode returns a node in block style, its keys in the order of the JSON.
func yamlNode(d document) (*yaml.Node, error) {
	data, err := compacted(d)
	if err != nil {
		return nil, err
	}
	return blockNode(data)
}

// YAML writes a JSON value as YAML in block style and keeps the order of its keys.
func YAML(data []byte) ([]byte, error) {
	node, err := blockNode(data)
	if err != nil {
		return nil, fmt.Errorf("write JSON as YAML: %w", err)
	}
	return encodeYAML(node)
}

func blockNode(data []byte) (*yaml.Node, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	node, err := (&jsonReader{data: data, line: 1, decoder: decoder}).value(0)
	if err != nil {
		return nil, err
	}
	style(node)
	return node, nil
}

// ambiguous matches strings that older YAML readers, kubectl's among them, take for booleans or
// base-60 numbers.
var ambiguous = regexp.MustCompile(`^(?i:y|n|yes|no|on|off|[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?)$`)

func style(node *yaml.Node) {
	switch {
	case node.Kind == yaml.ScalarNode && node.Tag == "!!float":
		node.Tag = "" // written without a tag
	case node.Kind == yaml.ScalarNode && node.Tag == "!!str" && ambiguous.MatchString(node.Value):
		node.Style = yaml.DoubleQuotedStyle
	case node.Kind != yaml.ScalarNode && len(node.Content) == 0:
		node.Style = yaml.FlowStyle // {} and []
	}
	for _, child := range node.Content {
		style(child)
	}
}
