// Package service has the model of a service that every registry fills, and makes ServiceEntries of
// it, so that services of all registries become alike.
//
// [Service.Resources] is a pure function. It judges nothing that the rules of ServiceEntry judge:
// whoever takes the resources checks them as any others.
package service

import (
	"fmt"
	"time"
)

// Service is a service of a registry, with its instances.
type Service struct {
	// Name tells it from all others of its registry. It may have any form.
	Name string `yaml:"name,omitempty"`
	// Entry says what people have to look for in the registry: "service web in datacenter dc1".
	Entry string `yaml:"entry,omitempty"`
	// Namespace is that of the resource, and of the identities of its instances.
	Namespace string `yaml:"namespace,omitempty"`
	// Hosts are what clients ask for, at least one.
	Hosts []string `yaml:"hosts,omitempty"`
	// Addresses are virtual addresses of the service, if it has some.
	Addresses []string   `yaml:"addresses,omitempty"`
	Ports     []Port     `yaml:"ports,omitempty"`
	Instances []Instance `yaml:"instances,omitempty"`
	// Labels are those of the resource. Those that are no labels of a mesh are left out.
	Labels map[string]string `yaml:"labels,omitempty"`
	// Annotations go to the resource as they are.
	Annotations map[string]string `yaml:"annotations,omitempty"`
	// External says that what serves is not a member of the mesh.
	External bool `yaml:"external,omitempty"`
	// Identities are those that its servers may show, as subjectAltNames; if there are none, those of
	// its instances count.
	Identities []string `yaml:"identities,omitempty"`
	// VisibleIn are the namespaces that see the service, as exportTo; all if there are none.
	VisibleIn []string  `yaml:"visibleIn,omitempty"`
	Created   time.Time `yaml:"created,omitempty"`
}

// Port is one on which clients reach a service.
type Port struct {
	// Name may be empty: the port is then called after its protocol and number.
	Name   string `yaml:"name,omitempty"`
	Number uint32 `yaml:"number,omitempty"`
	// Protocol is what a ServiceEntry may have: HTTP, HTTP2, GRPC, HTTPS, TLS, TCP. "" is TCP, and
	// Detected has proxies look at what clients send.
	Protocol string `yaml:"protocol,omitempty"`
	// Target is the port of instances that name none; 0 is the number itself.
	Target uint32 `yaml:"target,omitempty"`
}

// Detected is the protocol of a port of which nobody has said what it speaks: HTTP, if that is what
// comes, or TCP. It must not be that of a port on which servers speak first.
const Detected = "DETECTED"

// Instance serves all ports of a service at one address.
type Instance struct {
	// Address is an IP address, or a name that proxies resolve. Where one instance of a service has a
	// name, the whole service is resolved by DNS.
	Address string `yaml:"address,omitempty"`
	// Ports are where the instance serves, by the names of the service's ports, or, for a port
	// without a name, by ""; what is missing is the port's target.
	Ports map[string]uint32 `yaml:"ports,omitempty"`
	// Weight is its share of requests, 0 is 1.
	Weight uint32 `yaml:"weight,omitempty"`
	// Locality is region/zone/subzone.
	Locality string `yaml:"locality,omitempty"`
	Network  string `yaml:"network,omitempty"`
	// Account is the service account of its identity, in the namespace of the service; "" if the
	// instance has no sidecar that accepts mutual TLS.
	Account string `yaml:"account,omitempty"`
	// Labels tell subsets apart. Those that are no labels of a mesh are left out. They must not change
	// any more, for the endpoint may have the same map.
	Labels map[string]string `yaml:"labels,omitempty"`
	Health Health            `yaml:"health,omitempty"`
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

var healthWords = map[string]Health{"healthy": Healthy, "unhealthy": Unhealthy, "unknown": Unknown}

// MarshalText writes what UnmarshalText reads.
func (h Health) MarshalText() ([]byte, error) {
	for word, health := range healthWords {
		if health == h {
			return []byte(word), nil
		}
	}
	return nil, fmt.Errorf("there is no health %d", h)
}

// UnmarshalText reads "healthy", "unhealthy" or "unknown".
func (h *Health) UnmarshalText(text []byte) error {
	health, known := healthWords[string(text)]
	if !known {
		return fmt.Errorf(`%q is no health: write "healthy", "unhealthy" or "unknown"`, text)
	}
	*h = health
	return nil
}
