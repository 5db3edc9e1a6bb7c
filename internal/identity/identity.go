// Package identity knows by which names the members of a mesh go: SPIFFE ids, which certificates bear as their only URI. A machine's is
// Istio's, spiffe://TRUST-DOMAIN/ns/NAMESPACE/sa/SERVICE-ACCOUNT; a server's is spiffe://TRUST-DOMAIN/pgmesh/PROGRAM/NAME.
package identity

import (
	"crypto/x509"
	"fmt"
	"slices"
	"strings"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
)

// Workload is the identity of the machines that serve something together.
type Workload struct {
	TrustDomain    string
	Namespace      string
	ServiceAccount string
}

// Server is the identity of a program of pgmesh.
type Server struct {
	TrustDomain string
	Program     Program
	Name        string
}

// Program is one that has certificates of its own.
type Program string

// The programs that are servers.
const (
	MCPServer Program = "mcp-server"
	Discovery Program = "discovery"
)

// Programs are all of them.
var Programs = []Program{MCPServer, Discovery}

// ID is the workload's SPIFFE id, or why it cannot have one.
func (w Workload) ID() (spiffeid.ID, error) {
	return idOf(w.TrustDomain, "ns", w.Namespace, "sa", w.ServiceAccount)
}

// String is the workload's SPIFFE id as text.
func (w Workload) String() string { return "spiffe://" + w.TrustDomain + "/" + w.Path() }

// Path is the identity without its trust domain: ns/NAMESPACE/sa/SERVICE-ACCOUNT.
func (w Workload) Path() string { return "ns/" + w.Namespace + "/sa/" + w.ServiceAccount }

// ID is the server's SPIFFE id, or why it cannot have one.
func (s Server) ID() (spiffeid.ID, error) {
	if !slices.Contains(Programs, s.Program) {
		return spiffeid.ID{}, fmt.Errorf("%q is no program that has an identity: it is one of %v", s.Program, Programs)
	}
	return idOf(s.TrustDomain, "pgmesh", string(s.Program), s.Name)
}

// String is the server's SPIFFE id as text.
func (s Server) String() string {
	return "spiffe://" + s.TrustDomain + "/pgmesh/" + string(s.Program) + "/" + s.Name
}

func idOf(domain string, path ...string) (spiffeid.ID, error) {
	td, err := spiffeid.TrustDomainFromString(domain)
	if err != nil {
		return spiffeid.ID{}, fmt.Errorf("trust domain %q: %w", domain, err)
	}
	return spiffeid.FromSegments(td, path...)
}

// WorkloadOf reads the identity of a machine.
func WorkloadOf(id spiffeid.ID) (Workload, bool) {
	parts := strings.Split(id.Path(), "/") // the first is empty
	if len(parts) != 5 || parts[1] != "ns" || parts[3] != "sa" {
		return Workload{}, false
	}
	return Workload{TrustDomain: id.TrustDomain().Name(), Namespace: parts[2], ServiceAccount: parts[4]}, true
}

// ServerOf reads the identity of a server.
func ServerOf(id spiffeid.ID) (Server, bool) {
	parts := strings.Split(id.Path(), "/")
	if len(parts) != 4 || parts[1] != "pgmesh" || !slices.Contains(Programs, Program(parts[2])) {
		return Server{}, false
	}
	return Server{TrustDomain: id.TrustDomain().Name(), Program: Program(parts[2]), Name: parts[3]}, true
}

// Of is the SPIFFE id that a certificate bears.
func Of(c *x509.Certificate) (spiffeid.ID, error) {
	if len(c.URIs) != 1 {
		return spiffeid.ID{}, fmt.Errorf("the certificate has %d URIs, where the one SPIFFE id has to be", len(c.URIs))
	}
	return spiffeid.FromURI(c.URIs[0])
}

// EnrolmentOf names the machine that a certificate was given to: the serial number of its subject. It is empty where somebody else signed.
func EnrolmentOf(c *x509.Certificate) string { return c.Subject.SerialNumber }
