// Package convert turns what others have about hosts and paths into Gateways and routes of the Gateway
// API: VirtualServices and Gateways of Istio, Ingresses of Kubernetes, and files of NGINX and HAProxy.
// What is converted does with each request what the source did. What cannot be said is told of, and
// where it might have refused requests, they are refused.
package convert

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/convert/gateway"
	"github.com/pgmesh/pgmesh/mcp-client/convert/haproxy"
	"github.com/pgmesh/pgmesh/mcp-client/convert/haproxycfg"
	"github.com/pgmesh/pgmesh/mcp-client/convert/ingress"
	"github.com/pgmesh/pgmesh/mcp-client/convert/istio"
	"github.com/pgmesh/pgmesh/mcp-client/convert/nginx"
	"github.com/pgmesh/pgmesh/mcp-client/convert/nginxconf"
	"github.com/pgmesh/pgmesh/mcp-client/convert/report"
)

// Source is what is converted.
type Source string

// The sources.
const (
	Istio   Source = "istio"
	Ingress Source = "ingress"
	NGINX   Source = "nginx"
	HAProxy Source = "haproxy"
)

// Sources lists the sources.
func Sources() []Source { return []Source{Istio, Ingress, NGINX, HAProxy} }

// File is a file to be converted.
type File struct {
	Name string
	Data []byte
}

// Options say how to convert.
type Options struct {
	From          Source // of files; found out for each if it is empty
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
}

// read is a file of NGINX.
type read struct {
	name string
	all  []*nginxconf.Directive
}

// Files converts files, with documents that are known beside: those of a server.
func Files(files []File, known []*kinds.Document, o Options) (*Result, error) {
	c := &conversion{Options: o, Set: gateway.NewSet(&report.Report{}), istio: known, others: map[string]int{}, included: map[string]bool{}}
	for _, f := range files {
		if err := c.file(f); err != nil {
			return nil, err
		}
	}
	if len(c.wrong) > 0 {
		return nil, c.wrong
	}
	istio.Convert(c.istio, istio.Options{Class: o.Class, WholeSegments: o.WholeSegments}, c.Set)
	ingress.Convert(c.ingresses, c.services, ingress.Options{Class: o.Class, Gateway: o.Gateway}, c.Set)
	c.proxies()
	documents, err := c.Documents()
	if err != nil {
		return nil, err
	}
	c.tellOthers()
	c.Sort()
	return &Result{documents, c.Report}, nil
}

// file reads a file.
func (c *conversion) file(f File) error {
	from := c.From
	if from == "" {
		from = sourceOf(f)
	}
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
	return fmt.Errorf("%s: it is not known what this is: say --from %s", f.Name, names())
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

func names() string {
	var out []string
	for _, s := range Sources() {
		out = append(out, string(s))
	}
	return strings.Join(out[:len(out)-1], ", ") + " or " + out[len(out)-1]
}

var (
	hasSection  = regexp.MustCompile(`(?m)^\s*(frontend|backend|listen|defaults|global)(\s+[^\s:]+)*\s*(#.*)?$`)
	hasBlock    = regexp.MustCompile(`(?m)^\s*(http|server|upstream\s+\S+|events|location\s+[^{}]+)\s*\{|;\s*$`)
	hasDocument = regexp.MustCompile(`(?m)^\s*["{]*\s*["']?apiVersion["']?\s*:`)
)

// sourceOf finds out what a file is, from its name or from what is in it.
func sourceOf(f File) Source {
	switch ext := filepath.Ext(f.Name); {
	case slices.Contains([]string{".yaml", ".yml", ".json"}, ext) || hasDocument.Match(f.Data):
		return Istio // and Ingresses: the documents say
	case ext == ".cfg" && hasSection.Match(f.Data):
		return HAProxy
	case hasBlock.Match(f.Data):
		return NGINX
	case hasSection.Match(f.Data):
		return HAProxy
	case len(bytes.TrimSpace(f.Data)) == 0:
		return Istio // nothing, which is no mistake of a file
	}
	return ""
}

// tellOthers tells of documents that are not converted.
func (c *conversion) tellOthers() {
	if len(c.others) > 0 {
		c.Note(report.Place{}, "not converted: "+counted(c.others), "what is of the mesh among them stays as it is")
	}
}

// note counts a document that is not converted.
func (c *conversion) note(kind *kinds.Kind) {
	if kind.Group != "networking.istio.io" || kind.Name != "VirtualService" && kind.Name != "Gateway" {
		c.others[kind.Name]++
	}
}

// refusalOf has mistakes of documents as one error.
func refusalOf(err error) (kinds.Errors, bool) { return errors.AsType[kinds.Errors](err) }
