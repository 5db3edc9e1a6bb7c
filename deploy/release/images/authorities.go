package images

import (
	"bytes"
	"encoding/pem"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// Authorities returns Mozilla's authorities, as the Go project publishes them in a module: those that a
// machine has would make images of one commit differ. Authorities that count under conditions alone
// are left out, for a file of certificates cannot say those.
func Authorities() []byte {
	var all bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&all, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // into memory
		}
	}
	return all.Bytes()
}
