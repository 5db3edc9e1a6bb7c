package certtest

import (
	"crypto"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/identity/authority"
)

// Request creates a key and a certificate request signed with it.
func Request(t testing.TB) (crypto.Signer, *authority.CSR) {
	t.Helper()
	key, err := authority.NewKey()
	require.NoError(t, err)
	return key, RequestFor(t, key)
}

// RequestFor creates a certificate request for an existing key.
func RequestFor(t testing.TB, key crypto.Signer) *authority.CSR {
	t.Helper()
	text, err := authority.NewRequest(key)
	require.NoError(t, err)
	csr, err := authority.ParseRequest(text)
	require.NoError(t, err)
	return csr
}
