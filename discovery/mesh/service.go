package mesh

import (
	"maps"
	"slices"
	"strings"
	"time"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/kinds"
)

// Unspecified is the address of a service that has none: it is reached at any address, on its port.
const Unspecified = "0.0.0.0"

// Resolution is how a proxy finds the endpoints of a service.
type Resolution int

// The resolutions of a ServiceEntry.
const (
	ResolutionNone       Resolution = iota // connections go where the client sent them
	ResolutionStatic                       // endpoints are given by address
	ResolutionDNS                          // every address that the names resolve to
	ResolutionDNSRR                        // the first address that the name resolves to
	ResolutionDynamicDNS                   // the name that each request asks for
)

// Service is one host of one ServiceEntry.
type Service struct {
	Hostname  string // lower case, may be a wildcard
	Namespace string
	Entry     *kinds.Resource
	Created   time.Time
	// Shape is the same as before for as long as nothing but endpoints changes.
	Shape *Shape

	// Addresses has at least one element: an IP address, a CIDR range, or Unspecified.
	Addresses       []string
	Ports           []*Port
	Resolution      Resolution
	External        bool     // outside the mesh
	SubjectAltNames []string // as its own ServiceEntry lists them

	// Allocated are an IPv4 and an IPv6 address of the mesh's own for a service that has none, or nothing.
	Allocated []string

	// Endpoints are what serves this host, by every ServiceEntry of its namespace that names it.
	Endpoints []*Endpoint
	// Local tells that there are endpoints that not every proxy is led to.
	Local bool

	names      []string // the SubjectAltNames of every ServiceEntry of its namespace that names it
	visibility visibility
	slot       uint32 // that the allocated addresses come from
	variants   *variants
	derivation string // how it was made of another
}

// Port is a port of a service.
type Port struct {
	Name     string
	Number   uint32
	Protocol Protocol
	// Target is the endpoints' port where they do not say otherwise; 0: the same number.
	Target uint32
}

// Port returns the port with this number, or nil.
func (s *Service) Port(number uint32) *Port {
	for _, p := range s.Ports {
		if p.Number == number {
			return p
		}
	}
	return nil
}

// ByWorkload reports whether clients connect on a port to the workloads of the service themselves: nothing but their addresses tells
// what they want.
func (s *Service) ByWorkload(port *Port) bool {
	return s.passedOn() && (len(s.selector()) > 0 || slices.ContainsFunc(s.Endpoints, func(e *Endpoint) bool { return e.PortNumber == port.Number }))
}

// passedOn reports whether connections go where the client sent them, at no address of the service's own.
func (s *Service) passedOn() bool {
	return s.Resolution == ResolutionNone && s.Addresses[0] == Unspecified
}

// ResolvedByDNS reports whether proxies resolve the endpoints' names.
func (s *Service) ResolvedByDNS() bool {
	return s.Resolution == ResolutionDNS || s.Resolution == ResolutionDNSRR
}

// Of returns the endpoints that serve a port, those with the labels of a subset only. Endpoints given by address are
// told apart by the port's name, those given by name by its number, as Istio does where two entries share a host.
func (s *Service) Of(port *Port, subset map[string]string) []*Endpoint {
	var out []*Endpoint
	for _, e := range s.Endpoints {
		same := e.PortName == port.Name
		if s.ResolvedByDNS() {
			same = e.PortNumber == port.Number
		}
		if same && LabelsWithin(subset, e.Labels) {
			out = append(out, e)
		}
	}
	return out
}

// OnPort returns the endpoints that some ServiceEntry of the host has for a number, whatever it calls the port.
func (s *Service) OnPort(number uint32) []*Endpoint {
	var out []*Endpoint
	for _, e := range s.Endpoints {
		if e.PortNumber == number {
			out = append(out, e)
		}
	}
	return out
}

func (s *Service) key() hostKey { return hostKey{s.Namespace, s.Hostname} }

// copied is a service that is like this one until it is changed.
func (s *Service) copied() *Service {
	out := *s
	out.variants = &variants{}
	return &out
}

func compareServices(a, b *Service) int {
	if c := a.Created.Compare(b.Created); c != 0 {
		return c
	}
	if c := strings.Compare(a.Hostname, b.Hostname); c != 0 {
		return c
	}
	if c := strings.Compare(a.Namespace, b.Namespace); c != 0 {
		return c
	}
	return strings.Compare(a.Entry.Name, b.Entry.Name)
}

// addsTo reports whether the service has a port that other lacks.
func (s *Service) addsTo(other *Service) bool {
	return slices.ContainsFunc(s.Ports, func(p *Port) bool { return other.Port(p.Number) == nil })
}

// mergeable reports whether two entries for one host in one namespace describe the same kind of service. As in Istio exportTo has to be
// written alike; where the service is said to be does not count.
func (s *Service) mergeable(other *Service) bool {
	return s.Namespace == other.Namespace && s.Resolution == other.Resolution && maps.Equal(s.Entry.Labels, other.Entry.Labels) &&
		maps.Equal(s.selector(), other.selector()) && sameMembers(s.spec().GetExportTo(), other.spec().GetExportTo())
}

func (s *Service) spec() *networking.ServiceEntry { return specOf[*networking.ServiceEntry](s.Entry) }

// selector has the labels that the workloads of the service are found by, if they are.
func (s *Service) selector() map[string]string { return s.spec().GetWorkloadSelector().GetLabels() }
