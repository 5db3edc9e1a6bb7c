package httpapi

import (
	"encoding/json"
	"net/url"
	"testing"

	"github.com/grpc-ecosystem/grpc-gateway/v2/utilities"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/kinds"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// Any body is parsed or refused. A parsed one can be written in both forms, and they mean the same.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{
		`{"revision": "12", "kinds": ["vs"], "dryRun": true, "confirmWithin": "300s"}`, "time: 2026-05-01T12:00:00Z\nnames: [a, 'yes', \"1\"]\n",
		"revision: 0x1f", "{", "a: &a [*a]", "- 1\n---\n- 2", "message: \"\\u0000\"", "? [a]\n: b", "null", "kinds: {a: b}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var documents []*adminv1.Document
		require.NoError(t, jsonForm{}.Unmarshal(body, &documents))
		require.Equal(t, body, documents[0].GetContent())
		for _, form := range []interface {
			Unmarshal(data []byte, v any) error
		}{jsonForm{}, yamlForm{}} {
			read := &adminv1.RestoreRequest{}
			if form.Unmarshal(body, read) != nil {
				continue
			}
			asJSON, err := jsonForm{}.Marshal(read)
			require.NoError(t, err)
			require.True(t, json.Valid(asJSON))
			asYAML, err := yamlForm{}.Marshal(read)
			require.NoError(t, err)
			again := &adminv1.RestoreRequest{}
			require.NoError(t, yamlForm{}.Unmarshal(asYAML, again), "%s", asYAML)
			require.True(t, proto.Equal(read, again), "%s\n%s", asJSON, asYAML)
		}
	})
}

// Any query is parsed or refused, and one with an unknown parameter is refused.
func FuzzQuery(f *testing.F) {
	for _, seed := range []string{"kinds=vs,dr&namespaces=a", "revision=1&time=2026-05-01T12:00:00Z", "pageSize=-1", "page_size=1&pageSize=2", "as_of=1", "kinds[a]=b", "where=%00", "resource.kind=x"} {
		f.Add(seed)
	}
	none := utilities.NewDoubleArray(nil)
	f.Fuzz(func(t *testing.T, text string) {
		values, err := url.ParseQuery(text)
		if err != nil {
			return
		}
		req := &adminv1.ListRequest{}
		if err := (strictQuery{}).Parse(req, values, none); err == nil {
			for name := range values {
				_, known := fieldOf(req.ProtoReflect().Descriptor(), name)
				require.True(t, known, name)
			}
		}
	})
}

// Answers have the form that people write.
func TestNumbersAndWordsSurviveYAML(t *testing.T) {
	t.Parallel()
	text, err := yamlForm{}.Marshal(&adminv1.ResourceRef{Name: "1e3", Namespace: "null", Kind: "on"})
	require.NoError(t, err)
	require.Equal(t, "kind: \"on\"\nnamespace: \"null\"\nname: \"1e3\"\n", string(text))
	_, err = kinds.YAML(text)
	require.Error(t, err, "it takes JSON alone")
}
