package tlsfiles

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
)

// parseAuthorities reads all certificates of a bundle. It fails if one is unreadable: skipping that
// one would silently turn away everyone it vouches for.
func parseAuthorities(content []byte, file string) ([]*x509.Certificate, error) {
	var found []*x509.Certificate
	for {
		block, rest := pem.Decode(content)
		if block == nil {
			break
		}
		content = rest
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: certificate %d: %w", file, len(found)+1, err)
		}
		found = append(found, c)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s: there is no certificate in it, in PEM form", file)
	}
	return found, nil
}

func poolOf(certificates []*x509.Certificate) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, c := range certificates {
		pool.AddCert(c)
	}
	return pool
}
