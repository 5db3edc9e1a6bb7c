package serve

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/internal/listen"
	"github.com/pgmesh/pgmesh/internal/monitor"
	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
)

// wrong has a problem of each type, once a gateway is connected that asks for a secret.
const wrong = `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: root, namespace: edge}
spec: {hosts: [x.example.com], http: [{delegate: {name: missing}}]}
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: first, namespace: edge}
spec: {servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ['*']}]}
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: second, namespace: edge}
spec: {servers: [{port: {number: 80, name: tcp, protocol: TCP}, hosts: ['*']}]}
---
apiVersion: networking.istio.io/v1alpha3
kind: EnvoyFilter
metadata: {name: broken, namespace: edge}
spec: {configPatches: [{applyTo: CLUSTER, patch: {operation: MERGE, value: {connect_timeout: soon}}}]}
`

const all = `[
  {
    "code": "patch-not-applied",
    "kind": "EnvoyFilter",
    "namespace": "edge",
    "name": "broken",
    "path": "spec.configPatches[0].patch.value.connect_timeout",
    "message": "invalid google.protobuf.Duration value \"soon\""
  },
  {
    "code": "left-out",
    "kind": "Gateway",
    "namespace": "edge",
    "name": "second",
    "path": "spec.servers[0]",
    "message": "the port is taken by port 80 of Gateway edge/first, which speaks HTTP: a server of TCP beside it is left out"
  },
  {
    "code": "secret-denied",
    "kind": "Secret",
    "namespace": "edge",
    "name": "late",
    "path": "",
    "message": "kubernetes://late is unknown: put a secret of that name into the namespace edge, and see that discovery may read secrets",
    "at": "gate-1"
  },
  {
    "code": "secret-denied",
    "kind": "Secret",
    "namespace": "shop",
    "name": "theirs",
    "path": "",
    "message": "kubernetes://shop/theirs is forbidden: gateways are given the secrets of their own namespace, which is edge, and those of another one that a Gateway names and a ReferenceGrant there allows",
    "at": "gate-1"
  },
  {
    "code": "not-as-written",
    "kind": "VirtualService",
    "namespace": "edge",
    "name": "root",
    "path": "spec.http[0].delegate",
    "message": "there is no such delegate, or it is not exported to this namespace: the route is left out"
  }
]
`

// withDirectory runs discovery on a directory with one file.
func withDirectory(t *testing.T, text string) (Addresses, string) {
	t.Helper()
	directory := t.TempDir()
	file := filepath.Join(directory, "mesh.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	started, ended := make(chan Addresses, 1), make(chan error, 1)
	go func() {
		ended <- Run(ctx, Options{
			Sources: Sources{Directory: directory}, Listen: "127.0.0.1:0", HTTP: monitor.Options{Address: "127.0.0.1:0"},
			Plaintext: listen.Plaintext{Allowed: true}, Log: slog.New(slog.DiscardHandler),
		}, func(a Addresses) { started <- a })
	}()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	select {
	case a := <-started:
		return a, file
	case err := <-ended:
		ended <- err
		require.NoError(t, err)
		return Addresses{}, ""
	}
}

// gateway connects as a router of the namespace edge.
func gateway(t *testing.T, at Addresses) discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesClient {
	t.Helper()
	connection, err := grpc.NewClient(at.XDS.String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, connection.Close()) })
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(connection).StreamAggregatedResources(t.Context())
	require.NoError(t, err)
	return stream
}

// pageOf is the content of /problems; "" while there is no configuration.
func pageOf(t *testing.T, at Addresses) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+at.HTTP.String()+"/problems", http.NoBody)
	require.NoError(t, err)
	transport := &http.Transport{DisableKeepAlives: true}
	response, err := (&http.Client{Transport: transport}).Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	if response.StatusCode == http.StatusServiceUnavailable {
		return ""
	}
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Equal(t, "application/json", response.Header.Get("Content-Type"))
	return string(body)
}

func TestThePageHasEachProblemWhileItStands(t *testing.T) {
	t.Parallel()
	at, file := withDirectory(t, wrong)
	shows := func(want string) {
		t.Helper()
		page := ""
		for deadline := time.Now().Add(20 * time.Second); page != want && time.Now().Before(deadline); {
			page = pageOf(t, at)
		}
		require.Equal(t, want, page)
	}
	ask := func(names ...string) *discoveryv3.DiscoveryRequest {
		return &discoveryv3.DiscoveryRequest{
			Node: &corev3.Node{Id: "router~10.0.0.1~gate-1~edge.svc.cluster.local"}, TypeUrl: push.SecretType, ResourceNames: names,
		}
	}
	stream := gateway(t, at)
	require.NoError(t, stream.Send(ask("kubernetes://late", "kubernetes://shop/theirs")))
	shows(all)

	// A secret that no proxy asks for any more is not denied, and a corrected problem is gone.
	require.NoError(t, stream.Send(ask()))
	require.NoError(t, os.WriteFile(file, []byte("# nothing"), 0o600))
	shows("[]\n")
}

// A gateway that had a secret goes on to ask for it, whoever it was given to since.
func TestASecretThatIsTakenAwayIsAProblem(t *testing.T) {
	t.Parallel()
	pair := certtest.NewAuthority(t).Issue(nil)
	lent := func(account string) string {
		return fmt.Sprintf("{apiVersion: v1, kind: Secret, type: kubernetes.io/tls, metadata: {name: gate, namespace: edge}, serviceAccounts: [%s], data: {tls.crt: %s, tls.key: %s}}",
			account, base64.StdEncoding.EncodeToString(pair.Cert), base64.StdEncoding.EncodeToString(pair.Key))
	}
	at, file := withDirectory(t, lent("gate"))
	connection, err := grpc.NewClient(at.XDS.String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, connection.Close()) })
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(connection).DeltaAggregatedResources(t.Context())
	require.NoError(t, err)
	node := &corev3.Node{Id: "router~10.0.0.1~gate-1~edge.svc.cluster.local", Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{"SERVICE_ACCOUNT": structpb.NewStringValue("gate")}}}
	require.NoError(t, stream.Send(&discoveryv3.DeltaDiscoveryRequest{Node: node, TypeUrl: push.SecretType, ResourceNamesSubscribe: []string{"kubernetes://gate"}}))
	given, err := stream.Recv()
	require.NoError(t, err)
	require.Len(t, given.GetResources(), 1)
	require.NoError(t, stream.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: push.SecretType, ResponseNonce: given.GetNonce()}))
	require.NoError(t, os.WriteFile(file, []byte(lent("other")), 0o600))
	taken, err := stream.Recv()
	require.NoError(t, err)
	require.Equal(t, []string{"kubernetes://gate"}, taken.GetRemovedResources())
	require.Contains(t, pageOf(t, at), `this one's is \"gate\"`)
}
