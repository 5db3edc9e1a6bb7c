package mcp

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/kit/reload"
	"github.com/pgmesh/pgmesh/kinds"
	client "github.com/pgmesh/pgmesh/mcp-client/mcp"
)

func readText(t *testing.T, text string) (*settings, error) {
	t.Helper()
	u, err := url.Parse(text)
	require.NoError(t, err)
	return read(u)
}

func TestAURLSaysWhatIsFollowed(t *testing.T) {
	t.Parallel()
	s, err := readText(t, "mcp://one.example,two.example:15020,three.example:15021?name=site&protocol=xds&namespaces=a,b&set=prod&mcp-namespace=istio-system&hold-empty=0s&timeout=1s")
	require.NoError(t, err)
	require.Equal(t, []string{"one.example:15020", "two.example:15020", "three.example:15021"}, s.servers)
	require.Equal(t, "site", s.name)
	require.Equal(t, client.XDS, s.protocol)
	require.Equal(t, []string{"a", "b"}, s.namespaces)
	require.Equal(t, "prod", s.set)
	require.Equal(t, "istio-system", s.within)
	require.Zero(t, s.holdEmpty)
	require.Equal(t, time.Second, s.patience)
	require.Equal(t, []*kinds.Kind{serviceEntry, workloadEntry}, s.asked(), "a service has the workloads that it selects")

	s, err = readText(t, "mcp://one.example")
	require.NoError(t, err)
	require.Equal(t, Scheme, s.name)
	require.Equal(t, client.Auto, s.protocol)
	require.Equal(t, []*kinds.Kind{serviceEntry}, s.kinds)

	s, err = readText(t, "mcp://one.example?kinds=*")
	require.NoError(t, err)
	require.NotContains(t, s.kinds, kinds.Secret)
	require.Len(t, s.kinds, len(kinds.All())-2, "the MeshConfig and the MeshNetworks are the mesh's own")
}

func TestAURLThatIsWrongIsRefused(t *testing.T) {
	t.Parallel()
	for text, reason := range map[string]string{
		"mcp://":                                           "it names no server: write mcp://bridge.example:15020",
		"mcp://one.example/path":                           "a server has no path",
		"mcp://user:password@one.example":                  "credentials do not belong into a URL",
		"mcp://one.example,:1":                             `":1" is no address of a server`,
		"mcp://one.example?name=No":                        `"No" cannot be the name of a registry`,
		"mcp://one.example?kind=vs":                        `there is no parameter kind: did you mean "kinds"?`,
		"mcp://one.example?kinds=virtualservce":            "virtualservce",
		"mcp://one.example?kinds=meshconfig":               "a MeshConfig configures a mesh as a whole",
		"mcp://one.example?kinds=secret":                   "secret",
		"mcp://one.example?namespaces=A":                   `"A" is no name of a namespace`,
		"mcp://one.example?protocol=grpc":                  "unknown protocol",
		"mcp://one.example?hold-empty=2h":                  "is no time from 0s to 60m",
		"mcp://one.example?insecure=true":                  "insecure alone is for servers on loopback, which one.example:15020 is not",
		"mcp://127.0.0.1?insecure-any-address=true":        "give insecure=true with it",
		"mcp://127.0.0.1?insecure=true&tls-ca=ca.pem":      "insecure and the parameters for TLS exclude each other",
		"mcp://one.example?tls-cert=cert.pem":              "give tls-cert and tls-key",
		"mcp://127.0.0.1?insecure=true&insecure=true":      "insecure is given twice",
		"mcp://127.0.0.1,one.example?insecure=true&name=a": "which one.example:15020 is not",
	} {
		_, err := readText(t, text)
		require.ErrorContains(t, err, reason, text)
	}
	for text, reason := range map[string]string{
		"mcp://one.example?tls-ca=/nowhere.pem":      "/nowhere.pem",
		"mcp://one.example?token-file=/nowhere":      "/nowhere",
		"mcp://one.example?tls-server-id=not-an-id":  "not-an-id",
		"mcp://127.0.0.1?insecure=true&token-file=x": "x",
	} {
		u, err := url.Parse(text)
		require.NoError(t, err)
		_, err = Open(u, reload.Options{})
		require.ErrorContains(t, err, reason, text)
	}
}
