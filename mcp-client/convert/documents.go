package convert

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/convert/ingress"
	"github.com/pgmesh/pgmesh/mcp-client/convert/report"
)

// resources reads documents of Istio's kinds, Ingresses, and Services that these name. With --from one
// of both alone is converted.
func (c *conversion) resources(f File, from Source) error {
	parser := kinds.Parser{DefaultNamespace: c.Namespace, Foreign: func(_, kind string) {
		if kind != "Ingress" && kind != "Service" {
			c.others[kind]++
		}
	}}
	if c.From == "" || from == Istio {
		documents, err := parser.Parse(f.Name, f.Data)
		if wrong, is := refusalOf(err); is {
			c.wrong = append(c.wrong, wrong...)
			return nil
		} else if err != nil {
			return err
		}
		for _, d := range documents {
			c.note(d.Resource.Kind)
		}
		c.istio = append(c.istio, documents...)
	}
	if c.From == Istio {
		return nil
	}
	return c.foreign(f)
}

// foreign reads the Ingresses and Services of a file. Mistakes of its syntax are told by whoever reads
// the other documents.
func (c *conversion) foreign(f File) error {
	decoder := yaml.NewDecoder(bytes.NewReader(f.Data))
	for index := 1; ; index++ {
		node := &yaml.Node{}
		if err := decoder.Decode(node); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("%s: document %d: %w", f.Name, index, err)
		}
		if node.Kind == yaml.DocumentNode && len(node.Content) == 1 {
			node = node.Content[0]
		}
		for _, item := range itemsOf(node) {
			if err := c.document(f.Name, index, item); err != nil {
				return err
			}
		}
	}
}

// itemsOf are the documents of a List, or the document itself.
func itemsOf(node *yaml.Node) []*yaml.Node {
	if kind, items := valueOf(node, "kind"), valueOf(node, "items"); kind != nil && kind.Value == "List" && items != nil && items.Kind == yaml.SequenceNode {
		return items.Content
	}
	return []*yaml.Node{node}
}

func valueOf(node *yaml.Node, name string) *yaml.Node {
	for i := 0; node.Kind == yaml.MappingNode && i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == name {
			return node.Content[i+1]
		}
	}
	return nil
}

func (c *conversion) document(file string, index int, node *yaml.Node) error {
	version, kind := valueOf(node, "apiVersion"), valueOf(node, "kind")
	if version == nil || kind == nil {
		return nil
	}
	at := report.Place{File: file, Document: index, Line: node.Line, Kind: kind.Value}
	switch {
	case kind.Value == "Service" && version.Value == "v1":
		s := &ingress.Service{}
		if err := node.Decode(s); err != nil {
			return fmt.Errorf("%s: document %d, line %d: Service: %w", file, index, node.Line, err)
		}
		if s.Metadata.Namespace == "" {
			s.Metadata.Namespace = c.Namespace
		}
		c.services = append(c.services, s)
	case kind.Value == "Ingress" && strings.HasPrefix(version.Value, "networking.k8s.io/"):
		return c.ingress(at, version.Value, node)
	case kind.Value == "Ingress":
		c.Lose(at, version.Value+" is no Ingress that is read: it is left out", "write it as networking.k8s.io/v1")
	}
	return nil
}

// ingress reads an Ingress. Fields that there are not are told of.
func (c *conversion) ingress(at report.Place, version string, node *yaml.Node) error {
	i := &ingress.Ingress{}
	if err := strictly(node, i); err != nil {
		c.Lose(at, "not all of it is understood: "+unknown(err), "look for typing errors")
		i = &ingress.Ingress{}
		if err := node.Decode(i); err != nil {
			return fmt.Errorf("%s: document %d, line %d: Ingress: %w", at.File, at.Document, at.Line, err)
		}
	}
	if i.Metadata.Namespace == "" {
		i.Metadata.Namespace = c.Namespace
	}
	at.Namespace, at.Name = i.Metadata.Namespace, i.Metadata.Name
	if version != "networking.k8s.io/v1" {
		c.Lose(at, version+" has other fields, and is not read: it is left out", "write it as networking.k8s.io/v1, as every cluster has it now")
		return nil
	}
	i.Place = at
	c.ingresses = append(c.ingresses, i)
	return nil
}

var unknownField = regexp.MustCompile(`field (\S+) not found`)

// unknown names the fields that an error is about.
func unknown(err error) string {
	var fields []string
	for _, m := range unknownField.FindAllStringSubmatch(err.Error(), -1) {
		fields = append(fields, m[1])
	}
	if len(fields) == 0 {
		return strings.ReplaceAll(err.Error(), "\n", ";")
	}
	return "there is no field " + strings.Join(fields, ", ")
}

// strictly decodes a document that may have no other fields.
func strictly(node *yaml.Node, into any) error {
	text, err := yaml.Marshal(node)
	if err != nil {
		return err
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	return decoder.Decode(into)
}

// counted says how many there are of each kind.
func counted(kinds map[string]int) string {
	var out []string
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		out = append(out, fmt.Sprintf("%d %s", kinds[kind], kind))
	}
	return strings.Join(out, ", ")
}
