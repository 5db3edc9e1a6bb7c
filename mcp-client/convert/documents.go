package convert

import (
	"regexp"
	"strings"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/convert/documents"
	"github.com/pgmesh/pgmesh/mcp-client/convert/ingress"
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
		parsed, err := parser.Parse(f.Name, f.Data)
		if err != nil {
			return c.refusable(err)
		}
		for _, d := range parsed {
			c.note(d.Resource.Kind)
		}
		c.istio = append(c.istio, parsed...)
	}
	if c.From == Istio {
		return nil
	}
	return documents.Each(f.Name, f.Data, c.foreign)
}

// foreign reads an Ingress, or a Service. Mistakes of the syntax are told by whoever reads the other documents.
func (c *conversion) foreign(d documents.Document) error {
	version := documents.Text(d.Node, "apiVersion")
	switch {
	case d.At.Kind == "Service" && version == "v1":
		s := &ingress.Service{}
		if err := d.Decode(s); err != nil {
			return err
		}
		if s.Metadata.Namespace == "" {
			s.Metadata.Namespace = c.Namespace
		}
		c.services = append(c.services, s)
	case d.At.Kind == "Ingress" && strings.HasPrefix(version, "networking.k8s.io/"):
		return c.ingress(d, version)
	case d.At.Kind == "Ingress":
		c.Lose(d.At, version+" is no Ingress that is read: it is left out", "write it as networking.k8s.io/v1")
	}
	return nil
}

// ingress reads an Ingress. Fields that there are not are told of.
func (c *conversion) ingress(d documents.Document, version string) error {
	i, at := &ingress.Ingress{}, d.At
	if err := d.DecodeStrictly(i); err != nil {
		c.Lose(at, "not all of it is understood: "+unknown(err), "look for typing errors")
		i = &ingress.Ingress{}
		if err := d.Decode(i); err != nil {
			return err
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
