package kinds_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/kinds"
)

func endpointsIn(text string) []*v1alpha3.WorkloadEntry {
	r := &kinds.Resource{Annotations: map[string]string{kinds.OriginEndpointsAnnotation: text}}
	return r.Endpoints()
}

// An annotation has what is known of a Pod, always in the same words.
func TestEndpointsInAnAnnotation(t *testing.T) {
	t.Parallel()
	all := []*v1alpha3.WorkloadEntry{
		{Address: "10.0.0.1", Labels: map[string]string{"b": "<&>", "a": ""}, Locality: "eu/eu-a", Network: "prod", ServiceAccount: "model"},
		{Address: "fd00::1"},
	}
	text := kinds.WrittenEndpoints(all)
	require.NotContains(t, text, " ", "protojson has some at random")
	require.JSONEq(t, `[{"address":"10.0.0.1","labels":{"a":"","b":"\u003c\u0026\u003e"},"network":"prod","locality":"eu/eu-a","serviceAccount":"model"},{"address":"fd00::1"}]`, text)
	read := endpointsIn(text)
	require.Len(t, read, 2)
	for i := range all {
		require.True(t, proto.Equal(all[i], read[i]), read[i])
	}
	require.Equal(t, "[]", kinds.WrittenEndpoints(nil))
	require.Len(t, endpointsIn(kinds.WrittenEndpoints(append(all, &v1alpha3.WorkloadEntry{Address: "10.0.0.2", Network: "\xff"}))), 2)
}

// Nobody has checked an annotation: what could not be a Pod's is left out.
func TestEndpointsThatNoPodHas(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "x", "{}", "[]", "[1]", `[{"address": 1}]`, `[{"address": ""}]`, `[{"address": "a.example.com"}]`, `[{"address": "unix:///run/a"}]`, `[{"address": "fe80::1%eth0"}]`,
	} {
		require.Empty(t, endpointsIn(text), text)
	}
	read := endpointsIn(`[7, {"address": "10.0.0.1", "ports": {"http~": 1}, "weight": 9, "later": true}]`)
	require.Len(t, read, 1, "what a later version says beside is no reason to leave it out")
	require.True(t, proto.Equal(&v1alpha3.WorkloadEntry{Address: "10.0.0.1"}, read[0]), read[0])
}

// Whatever an annotation says, what is read of it can be written and read again.
func FuzzEndpoints(f *testing.F) {
	f.Add(`[{"address": "10.0.0.1", "labels": {"a": "b"}, "locality": "eu", "network": "n", "serviceAccount": "s"}, {"address": "::1"}]`)
	f.Add(`[{"address": "fe80::1%a", "labels": null}, {}, 1, "x"]`)
	f.Fuzz(func(t *testing.T, text string) {
		read := endpointsIn(text)
		again := endpointsIn(kinds.WrittenEndpoints(read))
		require.Len(t, again, len(read))
		for i := range read {
			require.True(t, proto.Equal(read[i], again[i]))
		}
	})
}
