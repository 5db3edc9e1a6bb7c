package certtest

import (
	"crypto"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/authority"
)

// Request is a new key, and what somebody who has it asks an authority of the mesh with.
func Request(t testing.TB) (crypto.Signer, *authority.CSR) {
	t.Helper()
	key, err := authority.NewKey()
	require.NoError(t, err)
	return key, RequestFor(t, key)
}

// RequestFor is Request for a key that there is.
func RequestFor(t testing.TB, key crypto.Signer) *authority.CSR {
	t.Helper()
	text, err := authority.NewRequest(key)
	require.NoError(t, err)
	csr, err := authority.ParseRequest(text)
	require.NoError(t, err)
	return csr
}
