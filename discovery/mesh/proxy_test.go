package mesh_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

func node(t *testing.T, id string, metadata map[string]any) *corev3.Node {
	t.Helper()
	m, err := structpb.NewStruct(metadata)
	require.NoError(t, err)
	return &corev3.Node{Id: id, Metadata: m}
}

func TestParseProxy(t *testing.T) {
	t.Parallel()
	p, err := mesh.ParseProxy(node(t, "sidecar~10.0.0.1~web-1.shop~shop.svc.cluster.local", map[string]any{
		"INSTANCE_IPS": "10.0.0.1,fd00::1,nonsense", "INTERCEPTION_MODE": "NONE", "UNPRIVILEGED_POD": "true", "IDLE_TIMEOUT": "5s",
		"LABELS": map[string]any{"app": "web"}, "STATIC_LABELS": map[string]any{"app": "static", "rack": "7"}, "ENVOY_STATUS_PORT": 15021,
	}))
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(&mesh.Proxy{
		Type: mesh.Sidecar, Addresses: []string{"10.0.0.1", "fd00::1"}, ID: "web-1.shop", Domain: "shop.svc.cluster.local",
		Namespace: "shop", Labels: map[string]string{"app": "web", "rack": "7"},
		StaticLabels: map[string]string{"app": "static", "rack": "7"}, Interception: mesh.InterceptionNone,
		Unprivileged: true, IdleTimeout: 5 * time.Second, ReservedPorts: []uint32{15021},
		Texts: map[string]string{
			"INSTANCE_IPS": "10.0.0.1,fd00::1,nonsense", "INTERCEPTION_MODE": "NONE", "UNPRIVILEGED_POD": "true", "IDLE_TIMEOUT": "5s",
		},
	}, p, cmpopts.IgnoreUnexported(mesh.Proxy{}), cmpopts.EquateComparable(netip.AddrPort{})))
	require.True(t, p.HasIPv4())
	require.True(t, p.HasIPv6())
}

func TestParseProxyExplainsWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		id       string
		metadata map[string]any
		want     string
	}{
		{"web", nil, `node id "web": want four parts, as in sidecar~IP~ID~DOMAIN`},
		{"ztunnel~10.0.0.1~a~b", nil, `unknown proxy type "ztunnel": want sidecar or router`},
		{"sidecar~ten~a~b", nil, `"ten" is not an IP address`},
		{"sidecar~~a~b", nil, "no IP address, neither in the id nor in the metadata INSTANCE_IPS"},
	} {
		_, err := mesh.ParseProxy(node(t, c.id, c.metadata))
		require.ErrorContains(t, err, c.want)
	}
}

func TestAProxyIsServedWithoutWhatCannotBeReadOfIt(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"5s":                      nil,
		"":                        nil,
		"soon":                    {`IDLE_TIMEOUT: "soon" is not a duration, and is left out: write it as 5s or 1h`},
		"-1s":                     {`IDLE_TIMEOUT: "-1s" is less than nothing, and is left out`},
		strings.Repeat("x", 1000): {`IDLE_TIMEOUT: "` + strings.Repeat("x", 64) + `" is not a duration, and is left out: write it as 5s or 1h`},
	} {
		p, err := mesh.ParseProxy(node(t, "sidecar~10.0.0.1~a~b", map[string]any{"IDLE_TIMEOUT": text, "HTTP10": "1"}))
		require.NoError(t, err)
		require.Equal(t, want, p.Warnings)
		require.True(t, p.HTTP10, "everything else counts")
		if want != nil {
			require.Zero(t, p.IdleTimeout)
		}
	}
}

func TestProxySaysWhereItIs(t *testing.T) {
	t.Parallel()
	labelled := func(labels map[string]any, locality *corev3.Locality) *mesh.Proxy {
		n := node(t, "sidecar~10.0.0.1~a.default~default.svc.cluster.local", map[string]any{"LABELS": labels, "NETWORK": "north"})
		n.Locality = locality
		p, err := mesh.ParseProxy(n)
		require.NoError(t, err)
		return p
	}
	byLabel := labelled(map[string]any{"istio-locality": "eu.a.1"}, nil)
	require.Equal(t, "a", byLabel.Locality.GetZone())
	require.Equal(t, "1", byLabel.Labels[mesh.LabelSubzone])
	require.Equal(t, "north", byLabel.Labels[mesh.LabelNetwork])
	byNode := labelled(map[string]any{"istio-locality": "eu.a.1"}, &corev3.Locality{Region: "us"})
	require.Equal(t, "us", byNode.Locality.GetRegion(), "the label is for agents that cannot say it otherwise")
	require.Empty(t, byNode.Labels[mesh.LabelZone])
}

func TestAnAgentThatServesTheIdentitySaysSo(t *testing.T) {
	t.Parallel()
	for key, known := range map[string]bool{"PGMESH_IDENTITY": true, "ISTIO_VERSION": true, "NAME": false} {
		p, err := mesh.ParseProxy(node(t, "sidecar~10.0.0.1~a.default~default.svc.cluster.local", map[string]any{key: "agent"}))
		require.NoError(t, err)
		require.Equal(t, known, p.Identity.FromAgent, key)
	}
}
