package gateway

import (
	"net/netip"
	"strings"
)

// Service is the spec of a ServiceEntry.
type Service struct {
	Hosts      []string      `json:"hosts"`
	Location   string        `json:"location"`
	Resolution string        `json:"resolution"`
	Ports      []ServicePort `json:"ports"`
	Endpoints  []Endpoint    `json:"endpoints"`
}

// ServiceOf is one of servers outside of the mesh, which are added.
func ServiceOf(host string) Service {
	return Service{Hosts: []string{host}, Location: "MESH_EXTERNAL", Resolution: "STATIC"}
}

// Add adds a server, with its port. The port of the first one is the service's.
func (s *Service) Add(e Endpoint, port ServicePort) {
	if len(s.Ports) == 0 {
		s.Ports = []ServicePort{port}
	}
	if port.Number != s.Ports[0].Number {
		e.Ports = map[string]int{s.Ports[0].Name: port.Number}
	}
	if _, err := netip.ParseAddr(e.Address); err != nil {
		s.Resolution = "DNS"
	}
	s.Endpoints = append(s.Endpoints, e)
}

// Address is where a server is, as an endpoint has it.
func Address(host string) string {
	if host = strings.Trim(host, "[]"); host == "localhost" {
		return "127.0.0.1"
	}
	return host
}

// ServicePort is a port of a Service.
type ServicePort struct {
	Number   int    `json:"number"`
	Name     string `json:"name"`
	Protocol string `json:"protocol"`
}

// Endpoint is a server of a Service.
type Endpoint struct {
	Address string         `json:"address"`
	Ports   map[string]int `json:"ports,omitempty"`
	Weight  int            `json:"weight,omitempty"`
}

// Policy is the spec of a DestinationRule.
type Policy struct {
	Host    string        `json:"host"`
	Traffic TrafficPolicy `json:"trafficPolicy"`
}

// TrafficPolicy says how a host is spoken to.
type TrafficPolicy struct {
	TLS          *ClientTLS    `json:"tls,omitempty"`
	LoadBalancer *LoadBalancer `json:"loadBalancer,omitempty"`
}

// ClientTLS is how TLS is spoken to a host.
type ClientTLS struct {
	Mode      string `json:"mode"`
	SNI       string `json:"sni,omitempty"`
	Unchecked bool   `json:"insecureSkipVerify,omitempty"`
}

// LoadBalancer says which server is asked.
type LoadBalancer struct {
	Simple string    `json:"simple,omitempty"`
	Hash   *HashedBy `json:"consistentHash,omitempty"`
}

// HashedBy says what has requests asked of the same server.
type HashedBy struct {
	SourceIP bool `json:"useSourceIp"`
}

// Unchecked has a host spoken to by TLS, without a look at its certificate.
func Unchecked(host, sni string) Policy {
	return Policy{host, TrafficPolicy{TLS: &ClientTLS{Mode: "SIMPLE", SNI: sni, Unchecked: true}}}
}
