// Package service has the model of a service that every registry fills, and makes ServiceEntries of
// it, so that services of all registries become alike.
//
// [Service.Resources] is a pure function. It judges nothing that the rules of ServiceEntry judge:
// whoever takes the resources checks them as any others.
package service

import "time"

// Service is a service of a registry, with its instances.
type Service struct {
	// Name tells it from all others of its registry. It may have any form.
	Name string
	// Entry says what people have to look for in the registry: "service web in datacenter dc1".
	Entry string
	// Namespace is that of the resource, and of the identities of its instances.
	Namespace string
	// Hosts are what clients ask for, at least one.
	Hosts []string
	// Addresses are virtual addresses of the service, if it has some.
	Addresses []string
	Ports     []Port
	Instances []Instance
	// Labels are those of the resource. Those that are no labels of a mesh are left out.
	Labels map[string]string
	// Annotations go to the resource as they are.
	Annotations map[string]string
	// External says that what serves is not a member of the mesh.
	External bool
	// Identities are those that its servers may show, as subjectAltNames; if there are none, those of
	// its instances count.
	Identities []string
	// VisibleIn are the namespaces that see the service, as exportTo; all if there are none.
	VisibleIn []string
	Created   time.Time
}

// Port is one on which clients reach a service.
type Port struct {
	// Name may be empty: the port is then called after its protocol and number.
	Name   string
	Number uint32
	// Protocol is what a ServiceEntry may have: HTTP, HTTP2, GRPC, HTTPS, TLS, TCP. "" is TCP.
	Protocol string
	// Target is the port of instances that name none; 0 is the number itself.
	Target uint32
}

// Instance serves all ports of a service at one address.
type Instance struct {
	// Address is an IP address, or a name that proxies resolve. Where one instance of a service has a
	// name, the whole service is resolved by DNS.
	Address string
	// Ports are where the instance serves, by the names of the service's ports, or, for a port
	// without a name, by ""; what is missing is the port's target.
	Ports map[string]uint32
	// Weight is its share of requests, 0 is 1.
	Weight uint32
	// Locality is region/zone/subzone.
	Locality string
	Network  string
	// Account is the service account of its identity, in the namespace of the service; "" if the
	// instance has no sidecar that accepts mutual TLS.
	Account string
	// Labels tell subsets apart. Those that are no labels of a mesh are left out.
	Labels map[string]string
	Health Health
}

// Health says whether requests are to be sent to an instance.
type Health int

// The healths. An instance that is not healthy stays known, and gets no requests while others are
// healthy.
const (
	Healthy Health = iota
	Unhealthy
	Unknown // nobody has looked yet
)
