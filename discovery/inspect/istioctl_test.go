package inspect_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
)

// istioctl asks as Istio's tool does: over a stream of its own, with a node like that of a sidecar,
// and with a nonce before anything was sent.
func (b *bench) istioctl(typeURL string, names ...string) (*discoveryv3.DiscoveryResponse, error) {
	b.t.Helper()
	connection, err := grpc.NewClient(b.at.XDS.String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(b.t, err)
	defer connection.Close()
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(connection).StreamAggregatedResources(b.t.Context())
	require.NoError(b.t, err)
	metadata, err := structpb.NewStruct(map[string]any{"GENERATOR": "event", "NAMESPACE": "istio-system", "SERVICE_ACCOUNT": "default", "ISTIO_VERSION": "65536.65536.65536"})
	require.NoError(b.t, err)
	require.NoError(b.t, stream.Send(&discoveryv3.DiscoveryRequest{
		Node:    &corev3.Node{Id: "sidecar~10.9.9.9~test-1.default~default.svc.cluster.local", Metadata: metadata},
		TypeUrl: typeURL, ResourceNames: names, ResponseNonce: time.Now().String(),
	}))
	return stream.Recv()
}

// syncStatus asks how proxies stand, and returns each with its types, as "vm-1.shop CDS SYNCED".
func (b *bench) syncStatus() (lines []string, configs []*statusv3.ClientConfig) {
	b.t.Helper()
	answer, err := b.istioctl("istio.io/debug/syncz")
	require.NoError(b.t, err)
	require.Equal(b.t, "istio.io/debug/syncz", answer.GetTypeUrl())
	for _, r := range answer.GetResources() {
		config := &statusv3.ClientConfig{}
		require.NoError(b.t, r.UnmarshalTo(config))
		configs = append(configs, config)
		for _, x := range config.GetGenericXdsConfigs() {
			lines = append(lines, fmt.Sprint(config.GetNode().GetId(), " ", push.Label(x.GetTypeUrl()), " ", x.GetConfigStatus()))
		}
	}
	return lines, configs
}

// shows waits until istioctl is shown exactly this.
func (b *bench) shows(lines ...string) []*statusv3.ClientConfig {
	b.t.Helper()
	var configs []*statusv3.ClientConfig
	poll.Eventually(b.t, func(context.Context) error {
		var now []string
		if now, configs = b.syncStatus(); !slices.Equal(now, lines) {
			return fmt.Errorf("istioctl is shown %q", now)
		}
		return nil
	})
	return configs
}

const (
	clusters  = "vm-1.shop envoy.config.cluster.v3.Cluster "
	endpoints = "vm-1.shop envoy.config.endpoint.v3.ClusterLoadAssignment "
)

func TestIstioctlIsShownHowProxiesStand(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.apply(web)
	n := node("sidecar", "10.0.0.1", "vm-1")
	n.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{"CLUSTER_ID": structpb.NewStringValue("eu"), "ISTIO_VERSION": structpb.NewStringValue("1.31.0")}}
	p := b.connect(n, push.ClusterType)
	first := p.receive()
	b.shows(clusters + "STALE")
	p.ack(first)
	shown := b.shows(clusters + "SYNCED")[0]
	require.Equal(t, map[string]any{"CLUSTER_ID": "eu", "ISTIO_VERSION": "1.31.0", "NAMESPACE": "shop"}, shown.GetNode().GetMetadata().AsMap())
	require.Equal(t, "1", shown.GetGenericXdsConfigs()[0].GetVersionInfo())
	require.WithinDuration(t, time.Now(), shown.GetGenericXdsConfigs()[0].GetLastUpdated().AsTime(), time.Minute)
	require.Nil(t, shown.GetGenericXdsConfigs()[0].GetErrorState())

	p.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: push.EndpointType, ResourceNamesSubscribe: []string{"outbound|80||none.shop"}})
	p.accept(1)
	b.shows(clusters+"SYNCED", endpoints+"SYNCED")

	b.apply(slowWeb)
	p.nack(p.receive(), "the timeout is too short for me")
	failed := b.shows(clusters+"ERROR", endpoints+"SYNCED")[0].GetGenericXdsConfigs()[0]
	require.Equal(t, "the timeout is too short for me", failed.GetErrorState().GetDetails())
	require.Equal(t, "2", failed.GetErrorState().GetVersionInfo())
	require.Equal(t, "1", failed.GetVersionInfo(), "which it goes on with")
}

const slowWeb = `{apiVersion: networking.istio.io/v1, kind: DestinationRule, metadata: {name: web}, spec: {host: web.shop, trafficPolicy: {connectionPool: {tcp: {connectTimeout: 1s}}}}}`

func TestIstioctlIsShownTheVersionOfTheAgent(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.apply(web)
	b.connectAs("mesh-agent/1.4.0", node("sidecar", "10.0.0.1", "vm-1"), push.ClusterType).accept(1)
	shown := b.shows(clusters + "SYNCED")[0]
	require.Equal(t, "1.4.0", shown.GetNode().GetMetadata().AsMap()["ISTIO_VERSION"])
}

func TestIstioctlIsNoProxy(t *testing.T) {
	t.Parallel()
	b, _ := startWithProxy(t)
	answer, err := b.istioctl("istio.io/debug/syncz")
	require.NoError(t, err)
	require.Len(t, answer.GetResources(), 1)
	require.Len(t, shown[proxies](b, "/debug/proxies"), 1)
	_, metrics := b.get("/metrics")
	require.Contains(t, metrics, "\npgmesh_discovery_proxies 1\n")
	require.NotContains(t, metrics, `protocol="sotw"} 1`)
	require.NotContains(t, metrics, "istio.io/debug")
}

func TestIstioctlIsToldWhichControlPlaneAnswers(t *testing.T) {
	t.Parallel()
	b, _ := startWithProxy(t)
	answer, err := b.istioctl("istio.io/debug/syncz")
	require.NoError(t, err)
	var named struct {
		Component, ID string

		Info struct{ Version string }
	}
	require.NoError(t, json.Unmarshal([]byte(answer.GetControlPlane().GetIdentifier()), &named))
	require.Equal(t, "discovery", named.Component)
	require.NotEmpty(t, named.ID)
	require.NotEmpty(t, named.Info.Version)
}

func TestIstioctlComparesAProxyWithItsDump(t *testing.T) {
	t.Parallel()
	b, _ := startWithProxy(t)
	answer, err := b.istioctl("istio.io/debug/config_dump", "vm-1.shop")
	require.NoError(t, err)
	var types []string
	for _, part := range answer.GetResources() {
		types = append(types, part.GetTypeUrl())
	}
	require.Contains(t, types, "type.googleapis.com/envoy.admin.v3.ClustersConfigDump")
	for name, want := range map[string]codes.Code{"vm-2.shop": codes.NotFound, "": codes.NotFound} {
		_, err = b.istioctl("istio.io/debug/config_dump", name)
		require.Equal(t, want, status.Code(err), "%v", err)
	}
	_, err = b.istioctl("istio.io/debug/config_dump")
	require.Equal(t, codes.InvalidArgument, status.Code(err), "%v", err)
}

func TestIstioctlReadsDebugPages(t *testing.T) {
	t.Parallel()
	b, _ := startWithProxy(t)
	page := func(name string) string {
		answer, err := b.istioctl("istio.io/debug", name)
		require.NoError(t, err)
		require.Equal(t, "istio.io/debug", answer.GetResources()[0].GetTypeUrl())
		return string(answer.GetResources()[0].GetValue())
	}
	require.JSONEq(t, `["/debug/list", "/debug/syncz"]`, page("list"))
	require.JSONEq(t, `[]`, page("syncz?namespace=other"))
	var all []map[string]any
	require.NoError(t, json.Unmarshal([]byte(page("syncz?namespace=shop")), &all))
	require.Equal(t, []any{"vm-1.shop", "sidecar", "1", "1"}, []any{all[0]["proxy"], all[0]["proxy_type"], all[0]["cluster_sent"], all[0]["cluster_acked"]})
	for name, want := range map[string]string{
		"config_distribution?resource=VirtualService/shop/web": "ask mesh.runs",
		"edsz": `no debug page "edsz"`,
	} {
		_, err := b.istioctl("istio.io/debug", name)
		require.ErrorContains(t, err, want)
	}
	for typeURL, want := range map[string]codes.Code{"istio.io/debug/sync": codes.NotFound, "istio.io/debug/config_distribution": codes.Unimplemented} {
		_, err := b.istioctl(typeURL)
		require.Equal(t, want, status.Code(err), "%v", err)
	}
}
