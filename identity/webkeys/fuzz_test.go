package webkeys_test

import (
	"crypto/elliptic"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/identity/webkeys"
	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
)

// FuzzRead holds what is read to what it promises: it can be read again, comes out the same, has
// nothing private, and has a key.
//
// With PGMESH_ENVOY=1 each document that is taken is shown to a real Envoy, which has to take it as
// well:
//
//	PGMESH_ENVOY=1 go test ./identity/webkeys -run - -fuzz FuzzRead -parallel 2
func FuzzRead(f *testing.F) {
	for _, key := range everyType(f) {
		f.Add(key)
		f.Add(set(key))
	}
	f.Add(set(everyType(f)...))
	f.Add(set(modulus(16384), modulus(1024), `{"kty":"RSA","n":"AQ","e":"Aw=="}`))
	f.Add(`{"keys":[{"kty":"EC","d":"AQ"},` + ecKey(f, elliptic.P256(), "P-256") + `,null],"a":{"b":[1,"\ud800",true]}}`)
	f.Add(webkeys.Nobodys)
	asksEnvoy := os.Getenv("PGMESH_ENVOY") != ""
	f.Fuzz(func(t *testing.T, document string) {
		s, err := webkeys.Read(document)
		if err != nil {
			return
		}
		require.NotZero(t, s.Keys())
		for _, text := range []string{s.Text, s.Canonical()} {
			again, err := webkeys.Read(text)
			require.NoError(t, err)
			require.Equal(t, s.Canonical(), again.Canonical())
			require.Equal(t, text, again.Text, "what was taken stays as it is")
			var written struct{ Keys []map[string]json.RawMessage }
			require.NoError(t, json.Unmarshal([]byte(text), &written))
			require.NotEmpty(t, written.Keys)
			for _, k := range written.Keys {
				require.NotContains(t, k, "d")
			}
		}
		if asksEnvoy {
			envoytest.Validate(t, checking(t, []string{s.Text, s.Canonical()}))
		}
	})
}
