package bootstrap_test

import (
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
	"github.com/pgmesh/pgmesh/mesh-agent/envoy/bootstrap"
)

func options() bootstrap.Options {
	return bootstrap.Options{
		Socket:         "/var/lib/mesh-agent/envoy.sock",
		XDS:            bootstrap.Delta,
		Role:           bootstrap.Sidecar,
		IP:             "10.0.0.7",
		ID:             "box7.shop",
		Namespace:      "shop",
		Domain:         "shop.svc.cluster.local",
		ServiceAccount: "cart",
		Labels:         map[string]string{"app": "cart", "version": "v1"},
		Interception:   bootstrap.None,
		Admin:          "127.0.0.1:15000",
	}
}

func build(t *testing.T, o bootstrap.Options) *bootstrapv3.Bootstrap {
	t.Helper()
	b, err := bootstrap.New(o)
	require.NoError(t, err)
	return b
}

func TestNodeIdentity(t *testing.T) {
	t.Parallel()
	n := build(t, options()).GetNode()

	require.Equal(t, "sidecar~10.0.0.7~box7.shop~shop.svc.cluster.local", n.GetId())
	require.Equal(t, "cart.shop", n.GetCluster())
	require.Equal(t, map[string]any{
		"NAME":                "box7.shop",
		"NAMESPACE":           "shop",
		"SERVICE_ACCOUNT":     "cart",
		"INTERCEPTION_MODE":   "NONE",
		"INSTANCE_IPS":        "10.0.0.7",
		"LABELS":              map[string]any{"app": "cart", "version": "v1"},
		"PGMESH_WASM_MODULES": "agent",
	}, n.GetMetadata().AsMap())
}

func TestNodeLocality(t *testing.T) {
	t.Parallel()
	o := options()
	o.Locality, o.Network = "eu-west-1/eu-west-1a", "blue"
	n := build(t, o).GetNode()
	require.Empty(t, cmp.Diff(&corev3.Locality{Region: "eu-west-1", Zone: "eu-west-1a"}, n.GetLocality(), protocmp.Transform()))
	require.Equal(t, "blue", n.GetMetadata().AsMap()["NETWORK"])
	for _, wrong := range []string{"a/b/c/d", "a//c", "/b"} {
		o.Locality = wrong
		_, err := bootstrap.New(o)
		require.ErrorContains(t, err, "write REGION", wrong)
	}
}

func TestAGatewayIsARouter(t *testing.T) {
	t.Parallel()
	o := options()
	o.Role = bootstrap.Gateway
	require.Equal(t, "router~10.0.0.7~box7.shop~shop.svc.cluster.local", build(t, o).GetNode().GetId())

	o.Interception = bootstrap.Redirect
	_, err := bootstrap.New(o)
	require.ErrorContains(t, err, `interception mode "REDIRECT": a gateway opens its ports itself`)
}

func TestXDSVariant(t *testing.T) {
	t.Parallel()
	for variant, want := range map[bootstrap.XDS]corev3.ApiConfigSource_ApiType{
		bootstrap.Delta: corev3.ApiConfigSource_DELTA_GRPC,
		bootstrap.SotW:  corev3.ApiConfigSource_GRPC,
	} {
		o := options()
		o.XDS = variant
		require.Equal(t, want, build(t, o).GetDynamicResources().GetAdsConfig().GetApiType())
	}
}

func TestEnvoyAcceptsTheBootstrap(t *testing.T) {
	t.Parallel()
	sotw := options()
	sotw.XDS = bootstrap.SotW
	for _, o := range []bootstrap.Options{options(), sotw} {
		envoytest.Validate(t, build(t, o))
	}
}

func TestJSONHoldsTheWholeBootstrap(t *testing.T) {
	t.Parallel()
	b := build(t, options())
	data, err := bootstrap.JSON(b)
	require.NoError(t, err)

	read := &bootstrapv3.Bootstrap{}
	require.NoError(t, protojson.Unmarshal(data, read))
	require.Empty(t, cmp.Diff(b, read, protocmp.Transform()))
	require.Contains(t, string(data), `"static_resources"`, "names are those of Envoy's documentation")
}

func TestEveryMistakeIsReported(t *testing.T) {
	t.Parallel()
	_, err := bootstrap.New(bootstrap.Options{
		Socket: "socket", XDS: "grpc", IP: "box7", ID: "a~b", Interception: "none", Admin: "0.0.0.0:15000",
	})
	for _, want := range []string{
		`the agent's socket "socket": must be an absolute path`,
		`xDS variant "grpc": expected one of delta, sotw`,
		`interception mode "none": expected one of NONE, REDIRECT, TPROXY`,
		`node IP "box7": not an IP address`,
		`id "a~b": must not contain a tilde, it separates the parts of a node id`,
		`namespace: must not be empty`,
		`domain: must not be empty`,
		`admin address "0.0.0.0:15000": Envoy's admin API may only listen on a loopback address such as 127.0.0.1:15000`,
	} {
		require.ErrorContains(t, err, want)
	}
}

func TestAddressesAreChecked(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		":15000":          "the host is missing",
		"127.0.0.1:admin": `"admin" is not a port`,
		"127.0.0.1:70000": `"70000" is not a port`,
		"127.0.0.1":       "expected host:port",
		"2001:db8::1:150": "expected host:port",
	} {
		o := options()
		o.Admin = address
		_, err := bootstrap.New(o)
		require.ErrorContains(t, err, want, address)
	}
}

// Everything comes from the agent's socket.
func TestEveryClusterIsTheAgent(t *testing.T) {
	t.Parallel()
	o := options()
	pipes := func(b *bootstrapv3.Bootstrap) map[string]string {
		out := map[string]string{}
		for _, c := range b.GetStaticResources().GetClusters() {
			require.Nil(t, c.GetTransportSocket())
			out[c.GetName()] = c.GetLoadAssignment().GetEndpoints()[0].GetLbEndpoints()[0].GetEndpoint().GetAddress().GetPipe().GetPath()
		}
		return out
	}
	require.Equal(t, map[string]string{"xds-grpc": o.Socket}, pipes(build(t, o)))

	o.Identity = true
	b := build(t, o)
	envoytest.Validate(t, b)
	require.Equal(t, "agent", b.GetNode().GetMetadata().AsMap()["PGMESH_IDENTITY"])
	require.Equal(t, map[string]string{"xds-grpc": o.Socket, "sds-grpc": o.Socket}, pipes(b))
}
