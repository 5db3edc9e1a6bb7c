// Package credential reads the values of a secret: those of TLS, which are a certificate with its
// key, and trusted authorities; and what registries of images know somebody by. The keys of the
// values are those that Istio and Kubernetes use.
//
// Errors never quote a value.
package credential

import (
	"crypto/x509"
	"encoding/pem"
	"slices"
	"time"
)

// The types of secrets.
const (
	TLS        = "kubernetes.io/tls"
	Opaque     = "Opaque"
	Registries = "kubernetes.io/dockerconfigjson"
)

// Pair is a certificate with its key, as PEM.
type Pair struct {
	Chain, Key []byte
	Staple     []byte // a stapled OCSP response, nil for none
}

// Trust is what peers' certificates are verified with, as PEM.
type Trust struct {
	Authorities []byte
	Revoked     []byte // certificate revocation lists, nil for none
}

// pairs are the keys for a certificate, its private key and its staple, in order of preference.
var pairs = []struct{ chain, key, staple string }{{"cert", "key", ""}, {"tls.crt", "tls.key", "tls.ocsp-staple"}}

// trusts are the keys for authorities and their revocation lists, in order of preference.
var trusts = []struct{ authorities, revoked string }{{"cacert", "crl"}, {"ca.crt", "ca.crl"}}

// PairIn returns the certificate and key of a secret, or false if there is none.
func PairIn(data map[string][]byte) (Pair, bool) {
	for _, n := range pairs {
		if len(data[n.chain]) > 0 && len(data[n.key]) > 0 {
			return Pair{data[n.chain], data[n.key], data[n.staple]}, true
		}
	}
	return Pair{}, false
}

// TrustIn returns the authorities of a secret, or false if there are none.
func TrustIn(data map[string][]byte) (Trust, bool) {
	for _, n := range trusts {
		if len(data[n.authorities]) > 0 {
			return Trust{data[n.authorities], data[n.revoked]}, true
		}
	}
	return Trust{}, false
}

// IsPublic reports whether the value with this key is no secret: a server shows certificates to
// whoever connects.
func IsPublic(name string) bool {
	return name == "tls.crt" || name == "cert" || name == "ca.crt" || name == "cacert"
}

// Names returns the DNS names, addresses and URIs of a secret's certificate.
func Names(data map[string][]byte) []string {
	for _, n := range pairs {
		if chain := certificates(data[n.chain]); len(chain) > 0 {
			return names(chain[0])
		}
	}
	return nil
}

// Validity returns when the certificate of a secret is valid with those that signed it or, where there
// is none, when one of its authorities is. Both are zero if it has no certificate.
func Validity(data map[string][]byte) (from, until time.Time) {
	for _, n := range pairs {
		for _, c := range certificates(data[n.chain]) {
			if c.NotBefore.After(from) {
				from = c.NotBefore
			}
			if until.IsZero() || c.NotAfter.Before(until) {
				until = c.NotAfter
			}
		}
	}
	if !until.IsZero() {
		return from, until
	}
	for _, n := range trusts {
		for _, c := range certificates(data[n.authorities]) {
			if from.IsZero() || c.NotBefore.Before(from) {
				from = c.NotBefore
			}
			if c.NotAfter.After(until) {
				until = c.NotAfter
			}
		}
	}
	return from, until
}

// certificates decodes the certificates in a PEM text and skips what it cannot decode.
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
