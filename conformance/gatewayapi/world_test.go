package gatewayapi_test

import (
	"context"
	"crypto/tls"
	"net"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/gateway-api/conformance/utils/suite"

	"github.com/pgmesh/pgmesh/conformance/gatewayapi/follow"
	"github.com/pgmesh/pgmesh/conformance/gatewayapi/node"
	"github.com/pgmesh/pgmesh/conformance/gatewayapi/operator"
	"github.com/pgmesh/pgmesh/discovery/gatewayapi"
	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
	"github.com/pgmesh/pgmesh/internal/testbench/kubetest"
	"github.com/pgmesh/pgmesh/internal/testbench/netns"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/stack"
)

// world is what the suite runs in: a cluster, the mesh that follows it, a node and an operator.
type world struct {
	kubeconfig string
	folder     string // of logs
	wire       *netns.Switch
	here       *netns.Namespace
	cluster    *kubetest.Cluster
	mesh       *stack.Stack
	database   string
	node       *node.Node
	operator   *operator.Operator
	stop       func() // ends the controllers
}

// The addresses that Gateways of the suite ask for: one that their machine can have, and one that it
// cannot. The switch gives neither to others.
var (
	usable   = netip.MustParsePrefix("10.77.255.1/16")
	unusable = netip.MustParseAddr("10.77.255.2")
)

// quiet is the test for those who set the stage: they show their logs when a test has failed, and
// tests of the suite may.
type quiet struct{ testing.TB }

func (quiet) Failed() bool { return false }

// newWorld starts everything. Logs, and the machines' states, go into a folder, which is made anew.
func newWorld(t *testing.T, folder string) *world {
	t.Helper()
	require.NoError(t, os.RemoveAll(folder))
	require.NoError(t, os.MkdirAll(folder, 0o755))
	aside := quiet{t}
	w := &world{folder: folder, here: netns.Own(aside), wire: netns.NewSwitch(aside)}
	w.here.Cable = w.wire.Join(w.here)
	w.here.IPv4 = w.here.Cable.IPv4
	w.here.Run("ip", "route", "add", "default", "via", w.wire.IPv4.String()) // by which an API server finds out its address
	w.cluster, w.database = kubetest.Start(aside), pgtest.New(t)
	w.cluster.InstallExperimentalGatewayAPI()
	w.kubeconfig = w.cluster.Kubeconfig(w.cluster.Address, w.cluster.Admin())
	w.startMesh(t)
	w.startControllers(t)
	w.cluster.Apply("/apis/gateway.networking.k8s.io/v1/gatewayclasses/"+gatewayapi.Class, kubetest.Object{
		"apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": kubetest.Object{"name": gatewayapi.Class},
		"spec": kubetest.Object{"controllerName": gatewayapi.Controller},
	})
	return w
}

// certified are the namespaces with the certificates of the suite.
var certified = []string{suite.InfrastructureNamespace, suite.WebBackendNamespace, suite.AppBackendNamespace}

// startMesh starts mcp-server and discovery, which machines reach.
func (w *world) startMesh(t *testing.T) {
	t.Helper()
	var err error
	w.mesh, err = stack.New(bin, w.folder, w.database)
	require.NoError(t, err)
	w.mesh.ServeOn(w.here.IPv4.String())
	w.mesh.ServerFlags("--registry", "kubernetes://"+w.kubeconfig+"?status=true&secrets="+strings.Join(certified, ","))
	require.NoError(t, w.mesh.Start(t.Context()))
	t.Cleanup(w.mesh.Stop)
}

// startControllers starts the node and the operator.
func (w *world) startControllers(t *testing.T) {
	t.Helper()
	aside := quiet{t}
	config, err := clientcmd.BuildConfigFromFlags("", w.kubeconfig)
	require.NoError(t, err)
	config.QPS = -1 // a test is not to wait for its own client
	scheme := runtime.NewScheme()
	require.NoError(t, clientscheme.AddToScheme(scheme))
	require.NoError(t, gatewayv1.Install(scheme))
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cluster := follow.Begin(ctx, c, t.Logf)
	w.stop = func() {
		cancel()
		cluster.Wait()
	}
	w.operator = &operator.Operator{
		Wire: w.wire, Class: gatewayapi.Class, Agent: filepath.Join(bin, "mesh-agent"), Envoy: envoytest.Binary(t), Discovery: w.mesh.XDS,
		Folder: filepath.Join(w.folder, "machines"), States: bin, Spare: []netip.Prefix{usable},
	}
	w.operator.Start(aside, cluster)
	w.node = &node.Node{
		Wire: w.wire, Address: w.here.IPv4, Images: w.images(t), Folder: filepath.Join(w.folder, "pods"), Joins: w.operator.Join,
	}
	w.node.Start(aside, cluster)
	w.serveNode(t)
}

// images are those of the suite.
func (w *world) images(t *testing.T) map[string]node.Image {
	t.Helper()
	cert, key := w.cluster.Authority.Issue(nil).Write(t, t.TempDir())
	return map[string]node.Image{
		"echo-basic": {Program: filepath.Join(bin, "echo-basic")},
		"coredns":    {Program: filepath.Join(bin, "whoami")},
		"echo-advanced": {
			Program: filepath.Join(bin, "server"), Commands: map[string]string{"client": filepath.Join(bin, "client")},
			Files: map[string]string{"/cert.crt": cert, "/cert.key": key},
		},
	}
}

// serveNode has the API server reach the node.
func (w *world) serveNode(t *testing.T) {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(w.here.IPv4.String(), "0"))
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(w.node.Handler())
	server.Listener.Close()
	server.Listener = listener
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{w.cluster.Authority.Issue(nil).Certificate(t)}}
	server.StartTLS()
	t.Cleanup(server.Close)
	require.NoError(t, w.node.Register(t.Context(), int32(listener.Addr().(*net.TCPAddr).Port)))
}

// end ends what runs on machines, before these go.
func (w *world) end() {
	w.stop()
	w.operator.End()
	w.node.End()
}
