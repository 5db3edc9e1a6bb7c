package consul

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/registry/consul/client"
	"github.com/pgmesh/pgmesh/registry/parameters"
)

// Scheme is that of Consul's URLs.
const Scheme = "consul"

// settings are what a URL says.
type settings struct {
	client client.Settings

	name        string
	datacenters []string // "*": all; none: the agent's own
	namespace   string   // of Consul
	partition   string
	tags        []string // that an instance must have
	passing     bool     // a warning keeps requests away
	domain      string   // what hosts end with
	hosts       hosts
	into        string // the namespace of the mesh
	port        uint32 // where clients reach services whose instances have many ports
	watches     int    // over connections of their own
	streams     int    // over HTTP/2
}

const (
	// defaultWatches leaves half of the 200 connections that an agent allows to others.
	defaultWatches = 100
	// defaultStreams is as many as a large catalog has services. 250 of them share a connection.
	defaultStreams = 10_000
	mostWatches    = 50_000
)

// known are the parameters that a URL may have.
var known = client.Add(map[string]parameters.Parameter[settings]{
	"name":         parameters.Text(func(s *settings) *string { return &s.name }),
	"dc":           parameters.List(func(s *settings) *[]string { return &s.datacenters }),
	"namespace":    parameters.Text(func(s *settings) *string { return &s.namespace }),
	"partition":    parameters.Text(func(s *settings) *string { return &s.partition }),
	"tag":          parameters.List(func(s *settings) *[]string { return &s.tags }),
	"only-passing": parameters.YesOrNo(func(s *settings, yes bool) { s.passing = yes }),
	"domain":       parameters.Text(func(s *settings) *string { return &s.domain }),
	"hosts":        parameters.Func(readHosts),
	"into":         parameters.Text(func(s *settings) *string { return &s.into }),
	"port":         parameters.Number(1, largestPort, func(s *settings, n int) { s.port = uint32(n) }),
	"watches":      parameters.Number(0, mostWatches, func(s *settings, n int) { s.watches, s.streams = n, n }),
}, func(s *settings) *client.Settings { return &s.client })

// read reads a URL: consul://127.0.0.1:8500/?dc=dc1.
func read(u *url.URL) (*settings, error) {
	s := &settings{client: client.NewSettings(u), watches: defaultWatches, streams: defaultStreams, domain: "consul", hosts: hosts{true, true}}
	if err := parameters.Read(s, u, known); err != nil {
		return nil, err
	}
	return s, s.complete(u)
}

func (s *settings) complete(u *url.URL) error {
	if len(s.datacenters) > 1 && slices.Contains(s.datacenters, "*") {
		return errors.New(`dc: "*" means all datacenters, and others need not be named`)
	}
	s.name = cmp.Or(s.name, s.defaultName())
	s.into = cmp.Or(s.into, s.namespace, "default")
	return s.client.Complete(u)
}

// defaultName has the datacenter, if there is one, so that one registry for each can be named without
// further ado.
func (s *settings) defaultName() string {
	if len(s.datacenters) == 1 && s.datacenters[0] != "*" {
		return Scheme + "-" + strings.ReplaceAll(s.datacenters[0], "_", "-")
	}
	return Scheme
}

// hosts are the forms of the hosts that services have.
type hosts struct {
	short      bool // web.service.consul
	datacenter bool // web.service.dc1.consul
}

func readHosts(s *settings, value string) error {
	switch value {
	case "short":
		s.hosts = hosts{short: true}
	case "datacenter":
		s.hosts = hosts{datacenter: true}
	case "both":
		s.hosts = hosts{true, true}
	default:
		return fmt.Errorf("%q is none of short (web.service.consul), datacenter (web.service.dc1.consul) and both", value)
	}
	return nil
}
