package kinds_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/pgmesh/pgmesh/kinds"
)

func TestMarshalYAMLReproducesFile(t *testing.T) {
	t.Parallel()
	data := everyKind(t)
	documents, err := kinds.Parse("every-kind.yaml", data)
	require.NoError(t, err)
	written, err := kinds.MarshalYAML(resources(documents)...)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(string(data), string(written)))
}

func TestJSONRoundTrip(t *testing.T) {
	t.Parallel()
	documents, err := kinds.Parse("every-kind.yaml", everyKind(t))
	require.NoError(t, err)
	list, err := kinds.MarshalJSON(resources(documents)...)
	require.NoError(t, err)
	again, err := kinds.Parse("list.json", list)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(resources(documents), resources(again), protocmp.Transform(), cmp.Comparer(sameKind)))
	for _, r := range resources(documents) {
		single, err := kinds.MarshalJSON(r)
		require.NoError(t, err)
		again, err := kinds.Parse("single.json", single)
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(r, again[0].Resource, protocmp.Transform(), cmp.Comparer(sameKind)))
	}
}

func TestMarshalNothing(t *testing.T) {
	t.Parallel()
	written, err := kinds.MarshalYAML()
	require.NoError(t, err)
	require.Empty(t, written)
	list, err := kinds.MarshalJSON()
	require.NoError(t, err)
	require.JSONEq(t, `{"apiVersion": "v1", "kind": "List", "items": []}`, string(list))
}

func TestStringsStayStrings(t *testing.T) {
	t.Parallel()
	values := map[string]string{
		"yes": "yes", "on": "off", "y": "N", "number": "12", "float": "1e3", "null": "null", "tilde": "~", "empty": "",
		"time": "12:30", "date": "2025-01-01", "octal": "0o7", "colon": "a: b", "hash": "a #b", "lines": "a\nb\n", "quote": `"'`, "merge": "<<",
	}
	spec := kind(t, "pa").NewSpec()
	r := &kinds.Resource{Kind: kind(t, "pa"), Namespace: "a", Name: "a", Annotations: values, Spec: kinds.SpecOf(spec)}
	written, err := kinds.MarshalYAML(r)
	require.NoError(t, err)
	for _, text := range []string{`"yes": "yes"`, `"on": "off"`, `"y": "N"`, `time: "12:30"`, `number: "12"`} {
		require.Contains(t, string(written), text)
	}
	documents, err := kinds.Parse("f", written)
	require.NoError(t, err)
	require.Equal(t, values, documents[0].Resource.Annotations)
}

func TestContentVersion(t *testing.T) {
	t.Parallel()
	type labels = map[string]string
	created := time.Date(2025, 3, 1, 12, 0, 0, 0, time.UTC)
	version := func(l, a labels, spec string, created time.Time) string {
		v, err := kinds.ContentVersion(l, a, json.RawMessage(spec), created)
		require.NoError(t, err)
		require.Len(t, v, 32)
		return v
	}
	base := version(labels{"a": "1", "b": "2"}, nil, `{"x": 1, "y": [1, 2]}`, created)
	for _, same := range []string{
		version(labels{"b": "2", "a": "1"}, labels{}, `{"y":[1,2],"x":1}`, created),
		version(labels{"b": "2", "a": "1"}, nil, `{"x": 1, "y": [1, 2]}`, created.Add(time.Millisecond).Local()),
	} {
		require.Equal(t, base, same)
	}
	for _, other := range []string{
		version(labels{"a": "1"}, nil, `{"x": 1, "y": [1, 2]}`, created),
		version(nil, labels{"a": "1", "b": "2"}, `{"x": 1, "y": [1, 2]}`, created),
		version(labels{"a": "1", "b": "2"}, nil, `{"x": 1, "y": [2, 1]}`, created),
		version(labels{"a": "1", "b": "2"}, nil, `{"x": "1", "y": [1, 2]}`, created),
		version(labels{"a": "1", "b": "2"}, nil, `{"x": 1, "y": [1, 2]}`, created.Add(time.Second)),
		version(labels{"a": "1", "b": "2"}, nil, `{"x": 1, "y": [1, 2]}`, time.Time{}),
	} {
		require.NotEqual(t, base, other)
	}
	_, err := kinds.ContentVersion(nil, nil, json.RawMessage(`{`), created)
	require.EqualError(t, err, "hash a spec: unexpected EOF")
}

func TestYAMLFromJSON(t *testing.T) {
	t.Parallel()
	text, err := kinds.YAML([]byte(`{"b": [{"x": 1}, "yes"], "a": {}, "n": "12", "f": 1.50}`))
	require.NoError(t, err)
	require.Equal(t, "b:\n- x: 1\n- \"yes\"\na: {}\n\"n\": \"12\"\nf: 1.50\n", string(text))
	_, err = kinds.YAML([]byte(`{"b": `))
	require.Error(t, err)
}
