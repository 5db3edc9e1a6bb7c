package issue

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"

	"github.com/pgmesh/pgmesh/discovery/identity/trust"
	"github.com/pgmesh/pgmesh/identity/authority"
)

// chainOf is a certificate as Istio's agents take it: its own first, then those between it and the root, and last, in one, all roots of the mesh.
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

// fingerprint is by what records name a root.
func fingerprint(root *x509.Certificate) string {
	sum := sha256.Sum256(root.Raw)
	return hex.EncodeToString(sum[:])
}
