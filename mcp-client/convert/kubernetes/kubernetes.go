// Package kubernetes converts what a cluster knows of services: Services with their EndpointSlices or
// Pods, and the ConfigMap of Istio. What is of the mesh already is kept as it is.
//
// A cluster that machines go on using is better read by mcp-server, as a registry: what is converted
// stays as it was when it was read.
package kubernetes

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/convert/documents"
	"github.com/pgmesh/pgmesh/mcp-client/convert/report"
	"github.com/pgmesh/pgmesh/mcp-client/convert/result"
)

// Conversion reads objects, and converts all of them together.
type Conversion struct {
	*result.Set

	namespace string // of what names none
	services  []*service
	slices    map[key][]*slice // by the Service
	pods      map[key]*pod
	nodes     map[string]*node
	maps      []*configMap
	others    map[string]int // documents that are not converted, by their kinds

	workloads map[key]*workload
	members   bool // there are Pods that take mutual TLS
}

// New returns a conversion that writes to a set.
func New(namespace string, to *result.Set) *Conversion {
	return &Conversion{
		Set: to, namespace: namespace, slices: map[key][]*slice{}, pods: map[key]*pod{}, nodes: map[string]*node{},
		others: map[string]int{}, workloads: map[key]*workload{},
	}
}

// Read reads a file, as kubectl writes it.
func (c *Conversion) Read(file string, data []byte) error {
	if err := documents.Each(file, data, c.object); err != nil {
		return err
	}
	parser := kinds.Parser{DefaultNamespace: c.namespace, Foreign: func(_, kind string) {
		if !slices.Contains(read, kind) {
			c.others[kind]++
		}
	}}
	ofTheMesh, err := parser.Parse(file, data)
	c.Keep(ofTheMesh)
	return err
}

// read are the kinds that are read.
var read = []string{"Service", "EndpointSlice", "Pod", "Node", "ConfigMap"}

// Reads reports whether objects of a kind are read.
func Reads(apiVersion, kind string) bool {
	if kind == "EndpointSlice" {
		return apiVersion == "discovery.k8s.io/v1"
	}
	return apiVersion == "v1" && slices.Contains(read, kind)
}

// object reads one object.
func (c *Conversion) object(d documents.Document) error {
	switch apiVersion := documents.Text(d.Node, "apiVersion"); {
	case apiVersion == "v1" && d.At.Kind == "Service":
		s := &service{at: d.At}
		c.services = append(c.services, s)
		return c.decode(d, s, &s.Metadata, &s.at)
	case apiVersion == "discovery.k8s.io/v1" && d.At.Kind == "EndpointSlice":
		s := &slice{}
		err := c.decode(d, s, &s.Metadata, nil)
		of := key{s.Metadata.Namespace, s.Metadata.Labels["kubernetes.io/service-name"]}
		c.slices[of] = append(c.slices[of], s)
		return err
	case apiVersion == "v1" && d.At.Kind == "Pod":
		p := &pod{}
		err := c.decode(d, p, &p.Metadata, nil)
		c.pods[p.Metadata.key()] = p
		return err
	case apiVersion == "v1" && d.At.Kind == "Node":
		n := &node{}
		err := d.Decode(n)
		c.nodes[n.Metadata.Name] = n
		return err
	case apiVersion == "v1" && d.At.Kind == "ConfigMap":
		m := &configMap{at: d.At}
		c.maps = append(c.maps, m)
		return c.decode(d, m, &m.Metadata, &m.at)
	}
	return nil
}

// decode reads an object, with the namespace of what names none.
func (c *Conversion) decode(d documents.Document, into any, m *metadata, at *report.Place) error {
	if err := d.Decode(into); err != nil {
		return err
	}
	if m.Namespace == "" {
		m.Namespace = c.namespace
	}
	if at != nil {
		at.Namespace, at.Name = m.Namespace, m.Name
	}
	return nil
}

// Convert writes what was read.
func (c *Conversion) Convert() {
	for _, m := range c.maps {
		c.meshConfig(m)
	}
	for _, s := range c.services {
		c.service(s)
	}
	for _, k := range slices.SortedFunc(maps.Keys(c.workloads), func(a, b key) int { return strings.Compare(a.namespace+"/"+a.name, b.namespace+"/"+b.name) }) {
		c.workload(k, c.workloads[k])
	}
	if c.members {
		c.Note(report.Place{}, "some Pods take mutual TLS, and are asked by it",
			"give the mesh and their Istio one root, or proxies will not believe them: docs/from-istio.md has the steps")
	}
	if len(c.workloads) > 0 {
		c.Note(report.Place{}, fmt.Sprintf("the addresses of %d Pods are those of now", len(c.workloads)),
			"for as long as the cluster is there, let mcp-server follow it in place of this: --registry kubernetes:///KUBECONFIG")
	}
	c.TellOthers(c.others)
}
