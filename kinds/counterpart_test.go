package kinds_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/kinds"
)

func TestAnUnknownKindIsAnsweredInOneLine(t *testing.T) {
	t.Parallel()
	for word, says := range map[string]string{
		"meshhttproutes":           "here it is a part of a VirtualService",
		"MeshTrafficPermission":    "here it is an AuthorizationPolicy",
		"meshretries.kuma.io":      "here it is a part of a VirtualService",
		"meshes":                   "a mesh is a database; mcp-client namespaces lists what is apart within one",
		"svc":                      "here it is a ServiceEntry, which mcp-client convert makes; mcp-client services lists services with their endpoints",
		"endpoints":                "here it is a WorkloadEntry, which mcp-client convert makes; mcp-client services lists services with their endpoints",
		"ingresses":                "here it is an HTTPRoute with a Gateway; mcp-client convert writes both",
		"deployments.apps":         "here it is a WorkloadGroup, whose machines join by themselves",
		"networkpolicies":          "here it is an AuthorizationPolicy",
		"ns":                       "mcp-client namespaces lists them",
		"nodes":                    "mcp-client machines list lists machines",
		"virtualservise":           `did you mean "VirtualService"?`,
		"nonsense":                 "mcp-client kinds lists them",
		"":                         "mcp-client kinds lists them",
		"s":                        "mcp-client kinds lists them",
		"virtualservices.other.io": "mcp-client kinds lists them",
	} {
		_, err := kinds.ByName(word)
		require.EqualError(t, err, `unknown kind "`+word+`" (`+says+")")
	}
}

// A kind that is one of ours by now needs no counterpart, which nobody would see.
func TestCounterpartsAreOfKindsThatThereAreNot(t *testing.T) {
	t.Parallel()
	for kind, here := range kinds.Counterparts() {
		_, err := kinds.ByName(kind)
		require.EqualError(t, err, `unknown kind "`+kind+`" (`+here+")")
	}
}
