// Package consul converts what a Consul knows of services: its catalog, or the definitions of its agents,
// and its config entries.
//
// A Consul that goes on being used is better read by mcp-server, as a registry: what is converted stays as
// it was when it was read. Services have the names, ports and labels that the registry gives them.
package consul

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/mcp-client/convert/fields"
	"github.com/pgmesh/pgmesh/mcp-client/convert/report"
	"github.com/pgmesh/pgmesh/mcp-client/convert/result"
)

// Conversion reads answers, definitions and config entries, and converts all of them together.
type Conversion struct {
	*result.Set

	namespace string // of what names none
	services  map[key]*service
	protocol  string           // of services that say none
	defaults  string           // allow or deny: what Consul does where no intention matches; "" if nobody says
	known     []*fields.Object // all that was read, to tell what nobody has looked at
	proxies   map[string]int   // sidecars and gateways of Consul, by their kinds
}

// key names a service.
type key struct{ namespace, name string }

// service is all that is known of a service. Each entry is nil if there is none.
type service struct {
	key

	at         report.Place
	instances  []instance
	defaults   *fields.Object
	resolver   *fields.Object
	router     *fields.Object
	splitter   *fields.Object
	intentions *fields.Object
	subsets    map[string]map[string]string // labels of those that can be said
}

// everything stands for all services in an intention.
const everything = "*"

// New returns a conversion that writes to a set.
func New(namespace string, to *result.Set) *Conversion {
	return &Conversion{Set: to, namespace: namespace, services: map[key]*service{}, proxies: map[string]int{}}
}

// named returns a service, which is known from now on.
func (c *Conversion) named(namespace, name string, at report.Place) *service {
	k := c.key(namespace, name)
	if c.services[k] == nil {
		at.Kind, at.Namespace, at.Name, at.Path = "service", k.namespace, k.name, ""
		c.services[k] = &service{key: k, at: at}
	}
	return c.services[k]
}

// key has the namespace of Consul Enterprise, if there is one.
func (c *Conversion) key(namespace, name string) key {
	if namespace == "" {
		namespace = c.namespace
	}
	return key{namespace, name}
}

// Convert writes what was read.
func (c *Conversion) Convert() {
	all := slices.SortedFunc(maps.Values(c.services), func(a, b *service) int {
		return strings.Compare(a.namespace+"/"+a.name, b.namespace+"/"+b.name)
	})
	for _, s := range all {
		s.subsets = c.subsetsOf(s)
	}
	for _, s := range all {
		if s.name == everything {
			continue
		}
		c.entry(s)
		c.destinationRule(s)
		c.virtualService(s)
	}
	c.policies(all)
	for _, o := range c.known {
		for _, at := range o.Unread() {
			c.Lose(at, "it is not known here, or has no counterpart, and is left out", insteadOf(at))
		}
	}
	if slices.ContainsFunc(all, func(s *service) bool { return len(s.instances) > 0 }) {
		c.Note(report.Place{}, "the instances are those of now", "for as long as Consul is there, let mcp-server follow it in place of this: --registry consul://127.0.0.1:8500")
	}
	c.tellProxies()
}

// host is what clients ask for, as in Consul's DNS.
func (s *service) host() string { return s.name + ".service.consul" }

// http reports whether requests to the service can be told apart. A router or a splitter says that they can.
func (c *Conversion) http(s *service) bool {
	return slices.Contains([]string{"HTTP", "HTTP2", "GRPC"}, c.protocolOf(s))
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
