package kinds_test

import (
	"bytes"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/kinds"
)

// FuzzStream compares Stream, fed byte by byte, with Parse.
func FuzzStream(f *testing.F) {
	f.Add([]byte("apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: a}\nspec: {host: a}\n---\n---\nkind: 1\n"))
	f.Add([]byte("apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: a}\nspec: {host: a}\n"))
	f.Add([]byte(`{"kind": "List", "items": [{"apiVersion": "networking.istio.io/v1", "kind": "Sidecar", "metadata": {"name": "a"}}]}`))
	f.Add([]byte("# nothing\n--- !!binary |\n  x\n...\n%YAML 1.2\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		whole, wrong := kinds.Parse("f", text)
		var documents []*kinds.Document
		var violations kinds.Errors
		require.NoError(t, kinds.Parser{DefaultNamespace: "default"}.Stream("f", iotest.OneByteReader(bytes.NewReader(text)), func(d *kinds.Document, e kinds.Errors) error {
			if d != nil {
				documents = append(documents, d)
			}
			violations = append(violations, e...)
			return nil
		}))
		require.Equal(t, wrong != nil, len(violations) > 0, "%v and %v", wrong, violations)
		if wrong != nil {
			return
		}
		require.Len(t, documents, len(whole))
		for i, d := range documents {
			require.Equal(t, whole[i].Resource.Key(), d.Resource.Key())
			require.JSONEq(t, string(whole[i].Spec), string(d.Spec))
		}
	})
}
