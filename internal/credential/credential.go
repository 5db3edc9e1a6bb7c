// Package credential reads what a secret holds for TLS: a certificate with its key, and the authorities that are trusted. The names of the
// values are those that Istio and Kubernetes use.
//
// No error here repeats anything of a value.
package credential

import (
	"crypto/x509"
	"encoding/pem"
	"slices"
)

// The types of secrets.
const (
	TLS    = "kubernetes.io/tls"
	Opaque = "Opaque"
)

// Pair is a certificate with its key, as PEM.
type Pair struct {
	Chain, Key []byte
	Staple     []byte // an answer of OCSP, nil for none
}

// Trust is what certificates of others are judged by, as PEM.
type Trust struct {
	Authorities []byte
	Revoked     []byte // lists of certificates that are not valid any more, nil for none
}

// pairs are the names that a certificate and its key go by. The first of which both are there counts.
var pairs = []struct{ chain, key, staple string }{{"cert", "key", ""}, {"tls.crt", "tls.key", "tls.ocsp-staple"}}

// trusts are the names of authorities, and of the lists that go with them.
var trusts = []struct{ authorities, revoked string }{{"cacert", "crl"}, {"ca.crt", "ca.crl"}}

// PairIn finds the certificate and key of a secret; false if there is none.
func PairIn(data map[string][]byte) (Pair, bool) {
	for _, n := range pairs {
		if len(data[n.chain]) > 0 && len(data[n.key]) > 0 {
			return Pair{data[n.chain], data[n.key], data[n.staple]}, true
		}
	}
	return Pair{}, false
}

// TrustIn finds the authorities of a secret; false if there are none.
func TrustIn(data map[string][]byte) (Trust, bool) {
	for _, n := range trusts {
		if len(data[n.authorities]) > 0 {
			return Trust{data[n.authorities], data[n.revoked]}, true
		}
	}
	return Trust{}, false
}

// IsPublic tells whether anybody may know a value of this name: certificates are shown to whoever connects.
func IsPublic(name string) bool {
	return name == "tls.crt" || name == "cert" || name == "ca.crt" || name == "cacert"
}

// Names are those that the certificate of a secret is for: DNS names, addresses and URIs.
func Names(data map[string][]byte) []string {
	for _, n := range pairs {
		if chain := certificates(data[n.chain]); len(chain) > 0 {
			return names(chain[0])
		}
	}
	return nil
}

// certificates decodes those in a text of PEM that can be.
func certificates(text []byte) (all []*x509.Certificate) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && block.Type == "CERTIFICATE" {
			all = append(all, c)
		}
	}
	return all
}

func names(c *x509.Certificate) []string {
	all := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		all = append(all, ip.String())
	}
	for _, u := range c.URIs {
		all = append(all, u.String())
	}
	return all
}
