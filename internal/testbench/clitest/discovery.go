package clitest

import (
	"context"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/stretchr/testify/require"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pgmesh/pgmesh/discovery/serve"
	"github.com/pgmesh/pgmesh/discovery/servetest"
	"github.com/pgmesh/pgmesh/internal/ads"
)

// Discovery is a running discovery with its debug pages.
type Discovery struct {
	t  *testing.T
	At serve.Addresses
}

// Discover starts a discovery.
func Discover(t *testing.T, sources serve.Sources) *Discovery {
	t.Helper()
	return &Discovery{t, servetest.Start(t, sources, ads.Limits{})}
}

// Connect connects a proxy that accepts everything, or all but one type.
func (d *Discovery) Connect(id, refuses string, types ...string) {
	d.t.Helper()
	connection, err := grpc.NewClient(d.At.XDS.String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(d.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(connection).DeltaAggregatedResources(ctx)
	require.NoError(d.t, err)
	for _, typeURL := range types {
		node := &corev3.Node{Id: id}
		if strings.HasPrefix(id, "router~") { // an Envoy that takes routes by host
			node.UserAgentName = "envoy"
			node.UserAgentVersionType = &corev3.Node_UserAgentBuildVersion{
				UserAgentBuildVersion: &corev3.BuildVersion{Version: &typev3.SemanticVersion{MajorNumber: 1, MinorNumber: 40}},
			}
		}
		require.NoError(d.t, stream.Send(&discoveryv3.DeltaDiscoveryRequest{Node: node, TypeUrl: typeURL}))
	}
	left := make(chan struct{})
	go func() {
		defer close(left)
		for {
			r, err := stream.Recv()
			if err != nil {
				return
			}
			answer := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: r.GetTypeUrl(), ResponseNonce: r.GetNonce()}
			if r.GetTypeUrl() == refuses {
				answer.ErrorDetail = &statuspb.Status{Code: 3, Message: "not with me"}
			}
			_ = stream.Send(answer) // which fails as Recv will
		}
	}()
	d.t.Cleanup(func() {
		cancel()
		<-left
		require.NoError(d.t, connection.Close())
	})
}

// Run runs a command with the discovery.
func (d *Discovery) Run(args ...string) Result {
	d.t.Helper()
	return Run(d.t.Context(), "", map[string]string{"PGMESH_DISCOVERY": d.At.HTTP.String()}, args...)
}

// Until repeats a command until its output is as wanted.
func (d *Discovery) Until(is func(Result) bool, args ...string) Result {
	d.t.Helper()
	var r Result
	require.Eventually(d.t, func() bool {
		r = d.Run(args...)
		return is(r)
	}, 20*time.Second, time.Millisecond, "%+v", &r)
	return r
}
