// Package open has all registries, and what announces services in them, by the schemes of the URLs
// that name them.
package open

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/internal/kit/nearest"
	"github.com/pgmesh/pgmesh/internal/kit/reload"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/registry"
	"github.com/pgmesh/pgmesh/registry/consul"
	"github.com/pgmesh/pgmesh/registry/files"
	"github.com/pgmesh/pgmesh/registry/kubernetes"
	"github.com/pgmesh/pgmesh/registry/mcp"
	"github.com/pgmesh/pgmesh/registry/zookeeper"
)

// scheme is a sort of registry.
type scheme struct {
	// example is a URL that would be right.
	example string
	open    func(*url.URL, reload.Options) (registry.Registry, error)
}

var schemes = map[string]scheme{
	"consul":     {"consul://127.0.0.1:8500", func(u *url.URL, o reload.Options) (registry.Registry, error) { return consul.Open(u, o) }},
	"files":      {"files:///etc/pgmesh/services", func(u *url.URL, o reload.Options) (registry.Registry, error) { return files.Open(u, o.Log) }},
	"kubernetes": {"kubernetes:///etc/pgmesh/kubeconfig", func(u *url.URL, o reload.Options) (registry.Registry, error) { return kubernetes.Open(u, o) }},
	"mcp":        {"mcp://bridge.example:15020", func(u *url.URL, o reload.Options) (registry.Registry, error) { return mcp.Open(u, o) }},
	"zookeeper":  {"zookeeper://127.0.0.1:2181", func(u *url.URL, o reload.Options) (registry.Registry, error) { return zookeeper.Open(u, o) }},
}

// All opens registries, each of another name. It reads what their URLs say, and asks none of them.
func All(urls []string, o reload.Options) ([]registry.Registry, error) {
	named := map[string]string{}
	all := make([]registry.Registry, 0, len(urls))
	for _, text := range urls {
		r, err := open(text, o)
		if err != nil {
			return nil, err
		}
		if !kinds.ValidNamespace(r.Name()) {
			return nil, fmt.Errorf("%s: %q is no name of a registry: give it one of lower-case letters, digits and \"-\" by ?name=", text, r.Name())
		}
		if r.Name() == kinds.OwnOrigin {
			return nil, fmt.Errorf("%s: no registry can be called %q, which is what the mesh's own resources come from: give it another name by ?name=", text, r.Name())
		}
		if other, taken := named[r.Name()]; taken {
			return nil, fmt.Errorf("%s is called %s, as %s is: give one of them another name by ?name=", text, r.Name(), other)
		}
		named[r.Name()] = text
		all = append(all, r)
	}
	return all, nil
}

// shown is a URL for people, without passwords. Go leaves the slashes out of one that ends there.
func shown(u *url.URL) string {
	if u.Host == "" && u.Path == "" {
		return u.Scheme + "://"
	}
	return u.Redacted()
}

func open(text string, o reload.Options) (registry.Registry, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("it is no URL: write it as " + examples()) // the error of Parse would quote passwords
	}
	s, known := schemes[u.Scheme]
	if !known {
		return nil, fmt.Errorf("there is no registry of the scheme %q%s: write it as %s", u.Scheme, meant(u.Scheme), examples())
	}
	r, err := s.open(u, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", shown(u), err)
	}
	return r, nil
}

func meant(word string) string {
	if near := nearest.Word(word, slices.Collect(maps.Keys(schemes))); near != "" {
		return fmt.Sprintf(" (did you mean %q?)", near)
	}
	return ""
}

func examples() string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(schemes)) {
		all = append(all, schemes[name].example)
	}
	return strings.Join(all, ", or ")
}
