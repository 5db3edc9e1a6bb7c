package issue

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"

	"github.com/pgmesh/pgmesh/discovery/identity/trust"
	"github.com/pgmesh/pgmesh/identity/authority"
)

// chainOf returns a certificate as Istio's agents expect it: first the certificate, then those
// between it and the root, and last, in one text, all roots of the mesh.
func chainOf(issued authority.Issued, state *trust.State) []string {
	var chain []string
	certificates, err := authority.ParseCertificates(issued.ChainPEM)
	if err != nil {
		panic("read certificates that were just written: " + err.Error())
	}
	for _, c := range certificates {
		chain = append(chain, string(authority.EncodeCertificates(c)))
	}
	return append(chain, string(authority.EncodeCertificates(state.Roots...)))
}

// fingerprint is how records name a root.
func fingerprint(root *x509.Certificate) string {
	sum := sha256.Sum256(root.Raw)
	return hex.EncodeToString(sum[:])
}
