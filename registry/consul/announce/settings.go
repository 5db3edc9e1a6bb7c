package announce

import (
	"fmt"
	"net/url"
	"regexp"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/registry/announce"
	"github.com/pgmesh/pgmesh/registry/consul/client"
	"github.com/pgmesh/pgmesh/registry/parameters"
)

// settings are what a URL says.
type settings struct {
	client client.Settings

	name      string
	selection announce.Selection
	prefix    string
	tags      []string // that each instance has
	rate      int      // changes a second
}

const (
	defaultName = "pgmesh"
	// defaultRate has a server of Consul make some thirty transactions a second, of which it makes
	// hundreds.
	defaultRate = 1000
	mostRate    = 100_000
)

var known = client.Add(map[string]parameters.Parameter[settings]{
	"name":   parameters.Text(func(s *settings) *string { return &s.name }),
	"from":   parameters.List(func(s *settings) *[]string { return &s.selection.Namespaces }),
	"every":  parameters.YesOrNo(func(s *settings, yes bool) { s.selection.Every = yes }),
	"prefix": parameters.Text(func(s *settings) *string { return &s.prefix }),
	"tag":    parameters.List(func(s *settings) *[]string { return &s.tags }),
	"rate":   parameters.Number(1, mostRate, func(s *settings, n int) { s.rate = n }),
}, func(s *settings) *client.Settings { return &s.client })

var goodPrefix = regexp.MustCompile(`^([a-z0-9][-a-z0-9]{0,30})?$`)

// read reads a URL: consul://127.0.0.1:8500/?from=shop.
func read(u *url.URL) (*settings, error) {
	s := &settings{client: client.NewSettings(u), name: defaultName, rate: defaultRate}
	if err := parameters.Read(s, u, known); err != nil {
		return nil, err
	}
	if !kinds.ValidNamespace(s.name) {
		return nil, fmt.Errorf("%q cannot be the name of a node that has what is announced: give it one with name, of lower-case letters, digits and -", s.name)
	}
	if !goodPrefix.MatchString(s.prefix) {
		return nil, fmt.Errorf("%q cannot begin the names of services: give a prefix of at most 31 lower-case letters, digits and -", s.prefix)
	}
	for _, namespace := range s.selection.Namespaces {
		if !kinds.ValidNamespace(namespace) {
			return nil, fmt.Errorf("from: %q is no namespace of the mesh", namespace)
		}
	}
	return s, s.client.Complete(u)
}
