package mesh_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/kinds"
)

// An expression that proxies leave out is a problem as long as it is there.
func TestAnExpressionThatEnvoyRefusesIsAProblem(t *testing.T) {
	t.Parallel()
	kind, ok := kinds.Lookup("networking.istio.io", "VirtualService")
	require.True(t, ok)
	s := configstore.New()
	route := func(expression string, prev *mesh.Mesh) *mesh.Mesh {
		spec := &networking.VirtualService{Hosts: []string{"x.example.com"}, Http: []*networking.HTTPRoute{{
			Match:          []*networking.HTTPMatchRequest{{Uri: &networking.StringMatch{MatchType: &networking.StringMatch_Regex{Regex: expression}}}},
			DirectResponse: &networking.HTTPDirectResponse{Status: 200},
		}}}
		r := &kinds.Resource{Kind: kind, Namespace: "evil", Name: "x", Spec: kinds.SpecOf(spec)}
		return mesh.Build(s.Apply(kinds.Batch{Changes: []kinds.Change{{Key: r.Key(), Resource: r}}}), prev)
	}
	m := route(`\p{Foo}`, nil)
	require.Equal(t, []string{"x spec.http[0].match[0].uri.regex"}, problemPlaces(m))
	require.Contains(t, m.Problems()[0].Reason, `the regular expression "\\p{Foo}" is none that Envoy can read: invalid character class range`)
	require.Empty(t, problemPlaces(route("/a+", m)))
}
