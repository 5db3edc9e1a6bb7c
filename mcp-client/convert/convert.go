// Package convert turns what others have into resources of the mesh. What is about hosts and paths
// becomes Gateways and routes of the Gateway API: VirtualServices and Gateways of Istio, Ingresses of
// Kubernetes, and files of NGINX and HAProxy. What a cluster or another mesh knows of services becomes
// ServiceEntries and WorkloadEntries, with the mesh's own kinds for what it does with them.
//
// What is converted does with each request what the source did. What cannot be said is told of, and
// where it might have refused requests, they are refused.
package convert

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/convert/consul"
	"github.com/pgmesh/pgmesh/mcp-client/convert/gateway"
	"github.com/pgmesh/pgmesh/mcp-client/convert/haproxy"
	"github.com/pgmesh/pgmesh/mcp-client/convert/haproxycfg"
	"github.com/pgmesh/pgmesh/mcp-client/convert/ingress"
	"github.com/pgmesh/pgmesh/mcp-client/convert/istio"
	"github.com/pgmesh/pgmesh/mcp-client/convert/kubernetes"
	"github.com/pgmesh/pgmesh/mcp-client/convert/kuma"
	"github.com/pgmesh/pgmesh/mcp-client/convert/nginx"
	"github.com/pgmesh/pgmesh/mcp-client/convert/nginxconf"
	"github.com/pgmesh/pgmesh/mcp-client/convert/report"
	"github.com/pgmesh/pgmesh/mcp-client/convert/result"
)

// Source is what is converted.
type Source string

// The sources.
const (
	Istio      Source = "istio"
	Ingress    Source = "ingress"
	NGINX      Source = "nginx"
	HAProxy    Source = "haproxy"
	Kubernetes Source = "kubernetes"
	Consul     Source = "consul"
	Kuma       Source = "kuma"
)

// Sources lists the sources.
func Sources() []Source { return []Source{Istio, Ingress, NGINX, HAProxy, Kubernetes, Consul, Kuma} }

// Endings are those of the files of a source, which are read from folders; if it is not said, of all that are found out.
func (s Source) Endings() []string {
	documents := []string{".yaml", ".yml", ".json"}
	switch s {
	case NGINX:
		return []string{".conf"}
	case HAProxy:
		return []string{".cfg"}
	case Consul:
		return append(documents, ".hcl")
	case Istio, Ingress, Kubernetes, Kuma:
		return documents
	}
	return append(documents, ".conf", ".cfg")
}

// File is a file to be converted.
type File struct {
	Name string
	Data []byte
}

// Options say how to convert.
type Options struct {
	From          Source // of files; found out for each if it is empty, where that is certain
	Namespace     string // of what names none
	Class         string // of Gateways
	Gateway       string // the name of the Gateway, where the source has none
	WholeSegments bool   // take prefixes for those of whole segments
	// Open returns the files that an NGINX file includes. If it is nil, it includes none.
	Open func(from, pattern string) ([]nginxconf.Opened, error)
}

// Result is what a conversion comes to.
type Result struct {
	Documents []*kinds.Document
	*report.Report
}

// conversion is one conversion on its way.
type conversion struct {
	Options
	*gateway.Set

	istio     []*kinds.Document
	ingresses []*ingress.Ingress
	services  []*ingress.Service
	wrong     kinds.Errors
	others    map[string]int // documents that are not converted, by their kinds

	nginx    []read                // each file of NGINX
	included map[string]bool       // those that another includes
	haproxy  []*haproxycfg.Section // of all files
	ofProxy  string                // the first of them

	inventories map[Source]inventory
}

// inventory reads what a source knows of services, and converts all of it together.
type inventory interface {
	Read(file string, data []byte) error
	Convert()
}

// inventory returns the one of a source, or nil if that has none.
func (c *conversion) inventory(from Source) inventory {
	if c.inventories[from] != nil {
		return c.inventories[from]
	}
	switch from {
	case Kubernetes:
		c.inventories[from] = kubernetes.New(c.Namespace, c.Set.Set)
	case Consul:
		c.inventories[from] = consul.New(c.Namespace, c.Set.Set)
	case Kuma:
		c.inventories[from] = kuma.New(c.Namespace, c.Set.Set)
	}
	return c.inventories[from]
}

// read is a file of NGINX.
type read struct {
	name string
	all  []*nginxconf.Directive
}

// Files converts files, with documents that are known beside: those of a server.
func Files(files []File, known []*kinds.Document, o Options) (*Result, error) {
	c := &conversion{Options: o, Set: gateway.NewSet(result.NewSet(&report.Report{})), istio: known, others: map[string]int{}, included: map[string]bool{}, inventories: map[Source]inventory{}}
	var found []Source
	if c.From == "" {
		found = sourcesOf(files)
	}
	for i, f := range files {
		from := c.From
		if from == "" {
			from = found[i]
		}
		if err := c.file(f, from); err != nil {
			return nil, err
		}
	}
	if len(c.wrong) > 0 {
		return nil, c.wrong
	}
	istio.Convert(c.istio, istio.Options{Class: o.Class, WholeSegments: o.WholeSegments}, c.Set)
	ingress.Convert(c.ingresses, c.services, ingress.Options{Class: o.Class, Gateway: o.Gateway}, c.Set)
	c.proxies()
	for _, source := range Sources() {
		if i := c.inventories[source]; i != nil {
			i.Convert()
		}
	}
	c.AddGrants()
	documents, err := c.Documents()
	if err != nil {
		return nil, err
	}
	c.TellOthers(c.others)
	c.Sort()
	return &Result{documents, c.Report}, nil
}

// file reads a file of a source.
func (c *conversion) file(f File, from Source) error {
	switch from {
	case NGINX:
		directives, err := c.reader(f.Name).Read(f.Name, f.Data)
		c.nginx = append(c.nginx, read{f.Name, directives})
		return err
	case HAProxy:
		sections, err := haproxycfg.Read(f.Name, f.Data)
		c.haproxy, c.ofProxy = append(c.haproxy, sections...), cmp.Or(c.ofProxy, f.Name)
		return err
	case Istio, Ingress:
		return c.resources(f, from)
	}
	if i := c.inventory(from); i != nil {
		return c.refusable(i.Read(f.Name, f.Data))
	}
	return fmt.Errorf("%s: it is not known what this is: say --from %s", f.Name, SourceNames())
}

// reader reads a file of NGINX with what it includes.
func (c *conversion) reader(name string) *nginxconf.Reader {
	if c.Open == nil {
		return &nginxconf.Reader{}
	}
	return &nginxconf.Reader{Open: func(pattern string) ([]nginxconf.Opened, error) {
		opened, err := c.Open(name, pattern)
		for _, o := range opened {
			c.included[o.Name] = true
		}
		return opened, err
	}}
}

// proxies converts the files of proxies: all of NGINX together, and all of HAProxy.
func (c *conversion) proxies() {
	var all []*nginxconf.Directive
	name := ""
	for _, f := range c.nginx {
		if !c.included[f.name] {
			name, all = cmp.Or(name, f.name), append(all, f.all...)
		}
	}
	if len(all) > 0 {
		nginx.Convert(name, all, nginx.Options{Namespace: c.Namespace, Class: c.Class, Gateway: c.Gateway, WholeSegments: c.WholeSegments}, c.Set)
	}
	if len(c.haproxy) > 0 {
		haproxy.Convert(c.ofProxy, c.haproxy, haproxy.Options{Namespace: c.Namespace, Class: c.Class, Gateway: c.Gateway, WholeSegments: c.WholeSegments}, c.Set)
	}
}

// SourceNames names the sources: "istio, ingress or nginx".
func SourceNames() string {
	var out []string
	for _, s := range Sources() {
		out = append(out, string(s))
	}
	return strings.Join(out[:len(out)-1], ", ") + " or " + out[len(out)-1]
}

// note counts a document that is not converted.
func (c *conversion) note(kind *kinds.Kind) {
	if kind.Group != "networking.istio.io" || kind.Name != "VirtualService" && kind.Name != "Gateway" {
		c.others[kind.Name]++
	}
}

// refusable keeps mistakes of documents, to be told with those of other files.
func (c *conversion) refusable(err error) error {
	if wrong, is := errors.AsType[kinds.Errors](err); is {
		c.wrong = append(c.wrong, wrong...)
		return nil
	}
	return err
}
