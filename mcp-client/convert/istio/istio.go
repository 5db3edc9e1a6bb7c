// Package istio converts Gateways and VirtualServices.
package istio

import (
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/convert/gateway"
	"github.com/pgmesh/pgmesh/mcp-client/convert/report"
)

// Options say how to convert.
type Options struct {
	Class         string // of Gateways
	WholeSegments bool   // take prefixes for those of whole segments
}

// group is that of Istio's kinds that are converted.
const group = "networking.istio.io"

// conversion is one conversion of documents that belong together.
type conversion struct {
	Options
	*gateway.Set

	gateways map[string]*converted // by namespace/name
	entries  []*kinds.Document     // ServiceEntries
	rules    []*kinds.Document     // DestinationRules
	subsets  map[string]gateway.Backend
}

// Convert converts the Gateways and VirtualServices among the documents. Others say what hosts are.
func Convert(documents []*kinds.Document, o Options, out *gateway.Set) {
	c := &conversion{Options: o, Set: out, gateways: map[string]*converted{}, subsets: map[string]gateway.Backend{}}
	c.entries, c.rules = of("ServiceEntry", documents), of("DestinationRule", documents)
	for _, d := range of("Gateway", documents) {
		c.gateway(d)
	}
	for _, d := range of("VirtualService", documents) {
		c.virtualService(d)
	}
}

func of(kind string, documents []*kinds.Document) (out []*kinds.Document) {
	for _, d := range documents {
		if d.Resource.Kind.Group == group && d.Resource.Kind.Name == kind {
			out = append(out, d)
		}
	}
	return out
}

func specOf[T any](d *kinds.Document) T { return d.Resource.Spec.Message().(T) }

func place(d *kinds.Document) report.Place {
	r := d.Resource
	return report.Place{File: d.File, Document: d.Index, Line: d.Line, Kind: r.Kind.Name, Namespace: r.Namespace, Name: r.Name}
}

// domain is that of services which are named in short.
const domain = ".svc.cluster.local"

// fullHost is the whole name of a host that a resource of the namespace names.
func fullHost(host, namespace string) string {
	if strings.ContainsAny(host, ".*") {
		return host
	}
	return host + "." + namespace + domain
}

// service reads the name of a service of Kubernetes.
func service(host string) (name, namespace string, ok bool) {
	short, ok := strings.CutSuffix(host, domain)
	if !ok {
		return "", "", false
	}
	name, namespace, ok = strings.Cut(short, ".")
	return name, namespace, ok && !strings.ContainsAny(namespace, ".*") && name != "*"
}

// entryOf is the ServiceEntry with a host; nil if there is none among the documents.
func (c *conversion) entryOf(host string) *kinds.Document {
	for _, d := range c.entries {
		if slices.Contains(specOf[*networking.ServiceEntry](d).GetHosts(), host) {
			return d
		}
	}
	return nil
}
