package convert

import (
	"bytes"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/mcp-client/convert/consul"
	"github.com/pgmesh/pgmesh/mcp-client/convert/documents"
	"github.com/pgmesh/pgmesh/mcp-client/convert/kubernetes"
	"github.com/pgmesh/pgmesh/mcp-client/convert/kuma"
)

// sourcesOf finds out what each file is. Services beside Ingresses, or beside routes of Istio, may be there for those alone:
// they are of a cluster where there are none in any file.
func sourcesOf(files []File) []Source {
	sources, contents := make([]Source, len(files)), make([]contents, len(files))
	services, routed := false, false
	for i, f := range files {
		contents[i] = contentsOf(f)
		sources[i] = sourceOf(f, &contents[i])
		services, routed = services || contents[i].services, routed || contents[i].routed
	}
	for i := range files {
		if services && !routed && sources[i] == Istio && contents[i].ofCluster && !contents[i].ofKuma {
			sources[i] = Kubernetes
		}
	}
	return sources
}

var (
	hasSection  = regexp.MustCompile(`(?m)^\s*(frontend|backend|listen|defaults|global)(\s+[^\s:]+)*\s*(#.*)?$`)
	hasBlock    = regexp.MustCompile(`(?m)^\s*(http|server|upstream\s+\S+|events|location\s+[^{}]+)\s*\{|;\s*$`)
	hasDocument = regexp.MustCompile(`(?m)^\s*["{]*\s*["']?apiVersion["']?\s*:`)
)

// sourceOf finds out what a file is, from its name or from what is in it.
func sourceOf(f File, in *contents) Source {
	switch ext := filepath.Ext(f.Name); {
	case in.ofKuma && !in.services && !in.routed:
		return Kuma
	case consul.Recognizes(f.Name, f.Data):
		return Consul
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

// contents say what there is among the documents of a file.
type contents struct {
	ofKuma    bool // what is certainly Kuma's
	services  bool // Services of a cluster, or their EndpointSlices
	ofCluster bool // any object that tells of services
	routed    bool // what becomes routes: Ingresses, and what Istio has for them
}

// contentsOf looks at documents. What cannot be read as such is told by whoever reads it.
func contentsOf(f File) (in contents) {
	_ = documents.Each(f.Name, f.Data, func(d documents.Document) error {
		if !d.IsObject() {
			return nil
		}
		version := documents.Text(d.Node, "apiVersion")
		in.ofKuma = in.ofKuma || kuma.Recognizes(d)
		if kubernetes.Reads(version, d.At.Kind) {
			in.ofCluster = true
			in.services = in.services || d.At.Kind == "Service" || d.At.Kind == "EndpointSlice"
		}
		in.routed = in.routed || d.At.Kind == "Ingress" ||
			strings.HasPrefix(version, "networking.istio.io/") && (d.At.Kind == "VirtualService" || d.At.Kind == "Gateway")
		return nil
	})
	return in
}
