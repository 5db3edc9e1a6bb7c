package gatewayapi

import (
	"fmt"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/kinds"
)

// World is what routes look up.
type World struct {
	Grants *Grants
	// Hosts are those of a ServiceEntry; none if there is no such.
	Hosts func(kinds.Key) []string
	// Known reports whether some service has a host.
	Known func(host string) bool
}

// serviceHost is the host of a service by its short name, or the host itself.
func serviceHost(name, namespace string) string {
	if strings.Contains(name, ".") {
		return name
	}
	return name + "." + namespace + domain
}

// entryKey is the ServiceEntry that a target names.
func (t target) entryKey() kinds.Key {
	return kinds.Key{Kind: KindServiceEntry, Namespace: t.namespace, Name: t.name}
}

// serviceHost is the host of what the target names, if it is a service by itself, or a pool.
func (t target) serviceHost() string {
	switch {
	case t.is("", "Service"):
		return t.name + "." + t.namespace + domain
	case t.is(groupIstio, "Hostname"):
		return strings.ToLower(t.name)
	case t.is(groupInference, KindPool.Name):
		return PoolHost(t.name, t.namespace)
	}
	return ""
}

// destination is where a rule of the route sends to. If the route may not use the
// backend, or it cannot exist, the host is empty: requests to it are answered with 500, and datagrams
// are lost.
func (c *conversion) destination(b backendSpec, path string) *networking.Destination {
	to := b.resolved("", "Service", c.route.Resource.Namespace)
	host, wrong := c.permitted(to)
	if wrong != (fault{}) {
		return c.nowhere(path, wrong)
	}
	if !c.world.Known(host) {
		c.lost(reasonNoBackend, path, absence(host, to))
	}
	out := &networking.Destination{Host: host}
	if b.Port != 0 && !IsPoolHost(host) { // a pool says itself on which ports it serves
		out.Port = &networking.PortSelector{Number: b.Port}
	}
	return out
}

// permitted is the host of what the route names, if it may.
func (c *conversion) permitted(to target) (host string, wrong fault) {
	if c.checked && !to.is(groupIstio, "Hostname") && !c.world.Grants.allow(c.route.Resource, to) {
		return "", fault{reasonNoGrant, fmt.Sprintf("no ReferenceGrant of the namespace %s allows a %s of %s to name the %s %s",
			to.namespace, c.route.Resource.Kind.Name, c.route.Resource.Namespace, to.kind, to.name)}
	}
	return c.host(to)
}

// absence says that a host is that of nothing.
func absence(host string, to target) string {
	if IsPoolHost(host) {
		return fmt.Sprintf("there is no InferencePool %s/%s", to.namespace, to.name)
	}
	return "there is no service " + host
}

// nowhere is where requests go to that cannot be sent where the rule says.
func (c *conversion) nowhere(path string, why fault) *networking.Destination {
	fate := "is answered with 500"
	if c.route.Resource.Kind == KindUDPRoute {
		fate = "is lost"
	}
	c.report(path, why.message+": what is sent there "+fate)
	c.lost(why.reason, path, why.message)
	return &networking.Destination{}
}

// The reasons of a backend that is not there, and of what can be none.
const (
	reasonNoBackend = "BackendNotFound"
	reasonNoKind    = "InvalidKind"
)

// picks reports whether somebody can be asked where to send what the route is about.
func (c *conversion) picks() bool {
	return c.route.Resource.Kind == KindHTTPRoute || c.route.Resource.Kind == KindGRPCRoute
}

// host is that of a backend.
func (c *conversion) host(to target) (host string, wrong fault) {
	if host := to.serviceHost(); host != "" {
		if IsPoolHost(host) && !c.picks() {
			return "", fault{reasonNoKind, "an InferencePool can only be a backend of an HTTPRoute or a GRPCRoute: its endpoint picker is asked about requests"}
		}
		return host, fault{}
	}
	if !to.is(groupIstio, KindServiceEntry.Name) {
		return "", fault{reasonNoKind, fmt.Sprintf("a %s of %q can be no backend: name a Service, a ServiceEntry, a Hostname or an InferencePool", to.kind, to.group)}
	}
	hosts := c.world.Hosts(to.entryKey())
	if len(hosts) == 0 {
		return "", fault{reasonNoBackend, fmt.Sprintf("there is no %s", to.entryKey())}
	}
	return hosts[0], fault{}
}

// weigh returns the backends that have some of the traffic, with their indices. The weight of a
// single one does not count, as in Istio.
func weigh(backends []backendSpec) (indices []int, weights []int32) {
	for i, b := range backends {
		if b.weight() > 0 {
			indices, weights = append(indices, i), append(weights, b.weight())
		}
	}
	if len(weights) == 1 {
		weights = []int32{0}
	}
	return indices, weights
}

// all returns the backends with their indices, also those that have none of the traffic.
func all(backends []backendSpec) (indices []int, weights []int32) {
	for i, b := range backends {
		indices, weights = append(indices, i), append(weights, b.weight())
	}
	return indices, weights
}
