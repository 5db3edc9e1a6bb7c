// Package identity parses and formats the SPIFFE ids of a mesh's members. A certificate has its id
// as its only URI. Machines use Istio's form,
// spiffe://TRUST-DOMAIN/ns/NAMESPACE/sa/SERVICE-ACCOUNT; servers use
// spiffe://TRUST-DOMAIN/pgmesh/PROGRAM/NAME.
package identity

import (
	"crypto/x509"
	"fmt"
	"slices"
	"strings"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
)

// Workload is the identity of all machines with one service account.
type Workload struct {
	TrustDomain    string
	Namespace      string
	ServiceAccount string
}

// Server is the identity of a pgmesh server.
type Server struct {
	TrustDomain string
	Program     Program
	Name        string
}

// Program is a pgmesh program that has an identity of its own.
type Program string

// The programs that have one.
const (
	MCPServer Program = "mcp-server"
	Discovery Program = "discovery"
)

// Programs lists every Program.
var Programs = []Program{MCPServer, Discovery}

// ID returns the workload's SPIFFE id, or an error if its parts do not make a valid one.
func (w Workload) ID() (spiffeid.ID, error) {
	return idOf(w.TrustDomain, "ns", w.Namespace, "sa", w.ServiceAccount)
}

// String returns the workload's SPIFFE id as text. It does not check its parts.
func (w Workload) String() string { return "spiffe://" + w.TrustDomain + "/" + w.Path() }

// Path returns the identity without its trust domain: ns/NAMESPACE/sa/SERVICE-ACCOUNT.
func (w Workload) Path() string { return "ns/" + w.Namespace + "/sa/" + w.ServiceAccount }

// ID returns the server's SPIFFE id, or an error if its parts do not make a valid one.
func (s Server) ID() (spiffeid.ID, error) {
	if !slices.Contains(Programs, s.Program) {
		return spiffeid.ID{}, fmt.Errorf("%q is no program that has an identity: it is one of %v", s.Program, Programs)
	}
	return idOf(s.TrustDomain, "pgmesh", string(s.Program), s.Name)
}

// String returns the server's SPIFFE id as text. It does not check its parts.
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

// WorkloadOf parses the SPIFFE id of a machine.
func WorkloadOf(id spiffeid.ID) (Workload, bool) {
	parts := strings.Split(id.Path(), "/") // the first is empty
	if len(parts) != 5 || parts[1] != "ns" || parts[3] != "sa" {
		return Workload{}, false
	}
	return Workload{TrustDomain: id.TrustDomain().Name(), Namespace: parts[2], ServiceAccount: parts[4]}, true
}

// ServerOf parses the SPIFFE id of a server.
func ServerOf(id spiffeid.ID) (Server, bool) {
	parts := strings.Split(id.Path(), "/")
	if len(parts) != 4 || parts[1] != "pgmesh" || !slices.Contains(Programs, Program(parts[2])) {
		return Server{}, false
	}
	return Server{TrustDomain: id.TrustDomain().Name(), Program: Program(parts[2]), Name: parts[3]}, true
}

// Of returns the SPIFFE id of a certificate.
func Of(c *x509.Certificate) (spiffeid.ID, error) {
	if len(c.URIs) != 1 {
		return spiffeid.ID{}, fmt.Errorf("the certificate has %d URIs, where the one SPIFFE id has to be", len(c.URIs))
	}
	return spiffeid.FromURI(c.URIs[0])
}

// EnrolmentOf returns the id of the machine that a certificate was issued to: the serial number of
// its subject. It is empty in certificates that another authority signed.
func EnrolmentOf(c *x509.Certificate) string { return c.Subject.SerialNumber }
