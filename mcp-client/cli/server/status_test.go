package server_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/pgmesh/pgmesh/internal/listen"
	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/mcp-server/serve"
	"github.com/pgmesh/pgmesh/proto/istio/mcp/v1alpha1"
	"github.com/pgmesh/pgmesh/store/rollout"
)

func TestStatus(t *testing.T) {
	t.Parallel()
	m := clitest.Eventful(t)
	w := m.Watch("vs")
	w.Lines(w.Out, 1)
	var out string
	require.Eventually(t, func() bool { // no client tells when the server has heard that another is gone, or its answer
		out = clitest.WithoutClocks(m.OK("status"))
		return regexp.MustCompile(`(?m)^clients +1$`).MatchString(out) && regexp.MustCompile(`(?m)^sidecar~\S+ +delta +20\d\d-\S+Z +4 +-$`).MatchString(out)
	}, 20*time.Second, 10*time.Millisecond, "one client, which has revision 4")
	require.Regexp(t, `(?m)^server +`+m.Address+`, version .*, up for \d+s$`, out)
	require.Regexp(t, `(?m)^serves +revision 4$`, out)
	require.Regexp(t, `(?m)^source +database, connected for \d+s, lost 0 times$`, out)
	require.Regexp(t, `(?m)^mesh +revision 4 at <time>, history from revision 1$`, out)
	require.Regexp(t, `(?m)^  virtualservice +2$`, out)
	require.Contains(t, m.OK("status", "-o", "wide"), "  networking.istio.io/v1/VirtualService")
	require.Equal(t, "4 delta", m.OK("status", "-o", "jsonpath={.server.revision} {.clients[0].protocol}"))

	r := m.Pipe(clitest.VirtualService("default", "a", "b"), "apply", "-f", "-", "--confirm-within", "5m")
	require.Zero(t, r.Code, r.Err)
	require.Contains(t, m.OK("status"), "1 change to be confirmed")
}

func TestStatusTellsWhatProxiesRefuse(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	send := m.ReportRefusal()
	require.Regexp(t, `(?m)^refused +1 resource of Envoy's by 1 proxy: shop/pay.shop refuses the RouteConfiguration 80: no such thing \(see mcp-client problems -A\)$`, m.OK("status"))
	send(rollout.Message{Revision: 2, Proxies: []rollout.Proxy{clitest.ProxyOf(2, "shop", "pay", "sidecar")}})
	require.NotContains(t, m.OK("status"), "refused")
}

func TestStatusOfForeignServer(t *testing.T) {
	t.Parallel()
	address := clitest.ServeGRPC(t, func(s *grpc.Server) { discoveryv3.RegisterAggregatedDiscoveryServiceServer(s, clitest.Stock{}) })
	status := func(args ...string) clitest.Result {
		return clitest.Run(t.Context(), "", nil, append([]string{"status", "--server", address, "--insecure"}, args...)...)
	}
	require.Equal(t, clitest.Result{Out: "server             " + address + "\nname               -\nprotocol           xds\nresources          1\n  virtualservice   1\n"}, status())
	require.Equal(t, "xds", status("-o", "jsonpath={.protocol}").Out)
	require.Equal(t, 4, clitest.Run(t.Context(), "", nil, "status", "--server", "127.0.0.1:1", "--insecure").Code)
}

// A relay reports its state, even when its upstream is gone.
func TestTheStatusOfARelay(t *testing.T) {
	t.Parallel()
	origin, stop := clitest.Launch(t, serve.Options{Database: pgtest.New(t)})
	relay, _ := clitest.Launch(t, serve.Options{Upstream: serve.Upstream{Addresses: []string{origin}}})
	require.Zero(t, clitest.At(t, relay, "get", "vs").Code) // it serves
	r := clitest.At(t, relay, "status")
	require.Zero(t, r.Code, r.Err)
	require.Regexp(t, `source +upstream, connected for`, r.Out)
	require.Contains(t, r.Out, "version")

	denied := clitest.At(t, relay, "problems")
	require.NotZero(t, denied.Code)
	require.Contains(t, denied.Err, "this server is a relay", "nothing else was opened")

	stop()
	require.Eventually(t, func() bool { r = clitest.At(t, relay, "status"); return r.Code == 1 }, time.Minute, 20*time.Millisecond)
	require.Regexp(t, `source +upstream, not connected for`, r.Out)
	require.Contains(t, r.Err, "has lost its source")
}

// A server that was started without its database tells what it serves, and since when.
func TestTheStatusOfAServerThatServesItsFile(t *testing.T) {
	t.Parallel()
	postgres, dir := pgtest.Server(t), t.TempDir()
	o := serve.Options{Database: postgres.URL, StateDir: dir}
	first, stop := clitest.Launch(t, o)
	require.Zero(t, clitest.At(t, first, "get", "vs").Code)
	stop()
	postgres.Stop()

	second, _ := clitest.Launch(t, o)
	require.Zero(t, clitest.At(t, second, "get", "vs").Code)
	r := clitest.At(t, second, "status")
	require.Equal(t, 1, r.Code, r.Err)
	require.Regexp(t, `source +file, not connected for .*, lost 0 times; what is served was saved .* ago`, r.Out)
	require.Contains(t, r.Err, "has lost its source")
	require.NotContains(t, r.Out, "\nmesh ")
}

// The state of each sink is shown, from all servers that have dialled it.
func TestTheStatusOfSinks(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t)
	pilot := clitest.ServeGRPC(t, func(s *grpc.Server) { legacyv1.RegisterResourceSinkServer(s, taking{}) })
	const gone = "127.0.0.1:1"
	conn, err := pgx.Connect(t.Context(), database)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), "INSERT INTO mesh.sinks (address, tls) VALUES ($1, false)", pilot)
	require.NoError(t, err)
	server, _ := clitest.Launch(t, serve.Options{Database: database, Name: "one", Poll: 50 * time.Millisecond, Legacy: serve.Legacy{
		Sinks: []string{gone}, Plaintext: listen.Plaintext{Allowed: true},
	}})
	var r clitest.Result
	require.Eventually(t, func() bool {
		r = clitest.At(t, server, "status")
		return r.Code == 0 && strings.Contains(r.Out, "refused") && regexp.MustCompile(`(?m)^sinks +2, 1 connected$`).MatchString(r.Out)
	}, time.Minute, 20*time.Millisecond, "%v", &r)
	require.Regexp(t, `(?m)^SINK +SERVER +STATE +SINCE +ERROR$`, r.Out)
	require.Regexp(t, `(?m)^`+pilot+` +one \S{4} +connected +20\d\d-\S+Z +-$`, r.Out)
	require.Regexp(t, `(?m)^`+gone+` +one \S{4} +not connected +20\d\d-\S+Z +.*refused`, r.Out)
	require.Equal(t, pilot+" true false\n"+gone+" false true\n",
		clitest.At(t, server, "status", "-o", `jsonpath={range .sinks[*]}{.address} {.connected} {.ofFlags}{"\n"}{end}`).Out)
}

// taking is a sink that asks for one collection, and takes what it is sent without a word.
type taking struct {
	legacyv1.UnimplementedResourceSinkServer
}

func (taking) EstablishResourceStream(g grpc.BidiStreamingServer[legacyv1.Resources, legacyv1.RequestResources]) error {
	if _, err := g.Recv(); err != nil { // the trigger
		return err
	}
	if err := g.Send(&legacyv1.RequestResources{Collection: "istio/networking/v1alpha3/virtualservices"}); err != nil {
		return err
	}
	<-g.Context().Done()
	return nil
}
