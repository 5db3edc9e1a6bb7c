package e2e

import (
	"context"
	"fmt"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
)

// istioctl asks discovery how the mesh's Envoy stands, as Istio's tool does.
func (m *mesh) istioctl(ctx context.Context) (*statusv3.ClientConfig, error) {
	conn, err := grpc.NewClient(m.XDS, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	if err != nil {
		return nil, err
	}
	_ = stream.Send(&discoveryv3.DiscoveryRequest{ // receiving tells the error
		Node: &corev3.Node{Id: "sidecar~10.9.9.9~test-1.default~default.svc.cluster.local"}, TypeUrl: "istio.io/debug/syncz", ResponseNonce: "now",
	})
	answer, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	for _, r := range answer.GetResources() {
		config := &statusv3.ClientConfig{}
		if err := r.UnmarshalTo(config); err != nil {
			return nil, err
		}
		if config.GetNode().GetMetadata().GetFields()["NAMESPACE"].GetStringValue() == m.namespace {
			return config, nil
		}
	}
	return nil, fmt.Errorf("istioctl is shown no proxy of %s", m.namespace)
}

// shownListeners waits until istioctl is shown that the Envoy's listeners stand so.
func (m *mesh) shownListeners(want statusv3.ConfigStatus) (config *statusv3.ClientConfig) {
	m.t.Helper()
	eventually(m.t, func(ctx context.Context) (err error) {
		if config, err = m.istioctl(ctx); err != nil {
			return err
		}
		for _, of := range config.GetGenericXdsConfigs() {
			if of.GetTypeUrl() == push.ListenerType && of.GetConfigStatus() == want {
				return nil
			}
		}
		return fmt.Errorf("istioctl is shown %v, want %s of the listeners", config, want)
	})
	return config
}

// What istioctl is shown of an Envoy is what SQL says, whatever form of xDS it speaks.
func TestIstioctlAndSQLSayTheSameOfAnEnvoy(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t)
	control := newStack(t, database)
	require.NoError(t, control.Start(t.Context()))
	for _, m := range []*mesh{meshOn(t, control, database), meshOn(t, control, database, "--xds", "sotw")} {
		m.commit(m.service(reviews, newBackend(t, "v1", nil)))
		m.awaitProxyState("synced")
		var agent string
		require.NoError(t, m.db.QueryRow(t.Context(), "SELECT agent FROM mesh.proxies WHERE namespace = $1", m.namespace).Scan(&agent))
		require.NotEmpty(t, agent)
		config := m.shownListeners(statusv3.ConfigStatus_SYNCED)
		require.Equal(t, agent, config.GetNode().GetMetadata().GetFields()["ISTIO_VERSION"].GetStringValue())

		m.commit(envoyFilter("broken", luaThatDoesNotCompile))
		m.awaitProxyState("refused")
		m.shownListeners(statusv3.ConfigStatus_ERROR)
	}
}
