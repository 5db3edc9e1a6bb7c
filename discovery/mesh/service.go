package mesh

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/gatewayapi"
	"github.com/pgmesh/pgmesh/kinds"
)

// Unspecified is the address of a service without one: it is reached at any address, on its port.
const Unspecified = "0.0.0.0"

// Resolution is how a proxy finds the endpoints of a service.
type Resolution int

// The resolutions of a ServiceEntry.
const (
	ResolutionNone       Resolution = iota // connections go where the client sent them
	ResolutionStatic                       // endpoints have addresses
	ResolutionDNS                          // every address that the names resolve to
	ResolutionDNSRR                        // the first address that the name resolves to
	ResolutionDynamicDNS                   // the name that each request asks for
)

// Service is one host of one ServiceEntry, or an InferencePool.
type Service struct {
	Hostname  string // lower case; may be a wildcard
	Namespace string
	Entry     *kinds.Resource
	Created   time.Time
	// Shape stays the same as long as nothing but endpoints changes.
	Shape *Shape

	// Addresses has at least one element: an IP address, a CIDR range, or Unspecified.
	Addresses []string
	// Ports are those with connections, and Datagrams those of UDP, which may have the same numbers.
	Ports, Datagrams []*Port

	// Pool is the InferencePool that the service is; nil if it is none.
	Pool *gatewayapi.Pool

	Resolution      Resolution
	External        bool     // outside the mesh
	SubjectAltNames []string // as its own ServiceEntry lists them

	// Allocated are the IPv4 and IPv6 address that the mesh gave a service without one.
	Allocated []string

	// Endpoints are those of all ServiceEntries in the namespace that name this host.
	Endpoints []*Endpoint
	// Local says that some endpoints are not for every proxy.
	Local bool

	sharing    []*kinds.Resource // the ServiceEntries of the namespace that name this host; nil if Entry alone does
	names      []string          // the SubjectAltNames of all ServiceEntries in the namespace that name this host
	visibility visibility
	slot       uint32 // what the allocated addresses were made from
	variants   *variants
	derivation string      // how it was made from another
	claim      kinds.Claim // of its entry to the host
}

// Port is a port of a service.
type Port struct {
	Name     string
	Number   uint32
	Protocol Protocol
	// Target is the port of endpoints that do not name one; 0 means the same number.
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

// Datagram returns the port of UDP with this number, or nil.
func (s *Service) Datagram(number uint32) *Port {
	i := slices.IndexFunc(s.Datagrams, func(p *Port) bool { return p.Number == number })
	if i < 0 {
		return nil
	}
	return s.Datagrams[i]
}

// ByWorkload reports whether clients connect on a port to single workloads of the service: nothing
// but a workload's address tells what they want.
func (s *Service) ByWorkload(port *Port) bool {
	return s.passedOn() && (len(s.selector()) > 0 || slices.ContainsFunc(s.Endpoints, func(e *Endpoint) bool { return e.serves(port) }))
}

// passedOn reports whether connections go where the client sent them, to no address of the
// service's own.
func (s *Service) passedOn() bool {
	return s.Resolution == ResolutionNone && s.Addresses[0] == Unspecified
}

// ResolvedByDNS reports whether proxies resolve the endpoints' names.
func (s *Service) ResolvedByDNS() bool {
	return s.Resolution == ResolutionDNS || s.Resolution == ResolutionDNSRR
}

// Of returns the endpoints that serve a port; with a subset, those with its labels. Endpoints with
// an address are matched by the port's name, those with a host name by its number, as Istio does if
// two entries share a host.
func (s *Service) Of(port *Port, subset map[string]string) []*Endpoint {
	var out []*Endpoint
	for _, e := range s.Endpoints {
		same := e.PortName == port.Name && e.Datagrams == port.takesDatagrams()
		if s.ResolvedByDNS() {
			same = e.serves(port)
		}
		if same && kinds.LabelsWithin(subset, e.Labels) {
			out = append(out, e)
		}
	}
	return out
}

// OnPort returns the endpoints that a ServiceEntry of the host has for connections to a port number,
// whatever it calls the port.
func (s *Service) OnPort(number uint32) []*Endpoint {
	var out []*Endpoint
	for _, e := range s.Endpoints {
		if e.PortNumber == number && !e.Datagrams {
			out = append(out, e)
		}
	}
	return out
}

func (s *Service) key() hostKey { return hostKey{s.Namespace, s.Hostname} }

// copied returns a copy to change.
func (s *Service) copied() *Service {
	out := *s
	out.variants = &variants{}
	return &out
}

// compareServices sorts by the rank of where they come from, and then the older first.
func compareServices(a, b *Service) int {
	if c := cmp.Compare(a.claim.Rank, b.claim.Rank); c != 0 {
		return c
	}
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
	return slices.ContainsFunc(s.Ports, func(p *Port) bool { return other.Port(p.Number) == nil }) ||
		slices.ContainsFunc(s.Datagrams, func(p *Port) bool { return other.Datagram(p.Number) == nil })
}

// mergeable reports whether two entries for one host in one namespace describe the same kind of
// service. As in Istio, exportTo has to be written alike, and location does not count.
func (s *Service) mergeable(other *Service) bool {
	return s.Namespace == other.Namespace && s.Resolution == other.Resolution && maps.Equal(s.Entry.Labels, other.Entry.Labels) &&
		maps.Equal(s.selector(), other.selector()) && sameMembers(s.spec().GetExportTo(), other.spec().GetExportTo())
}

func (s *Service) spec() *networking.ServiceEntry { return specOf[*networking.ServiceEntry](s.Entry) }

// selector has the labels that select the workloads of the service.
func (s *Service) selector() map[string]string { return s.spec().GetWorkloadSelector().GetLabels() }
