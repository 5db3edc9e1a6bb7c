package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/pgmesh/pgmesh/internal/testbench/stack"
)

// counting is a mesh of two machines that count: web calls api, whose services speak HTTP, gRPC and
// something else.
type counting struct {
	*secureMesh

	server, client      *stack.Program
	outside             *http.Client
	http, grpc, tcp     string // ports of the server's Envoy
	toHTTP, toGRPC, tap string // ports of the client's Envoy
}

// countsAll turns Istio's standard metrics on everywhere.
const countsAll = `
apiVersion: telemetry.istio.io/v1
kind: Telemetry
metadata: {name: mesh, namespace: istio-system}
spec: {metrics: [{providers: [{name: prometheus}]}]}
`

// failing is the path of requests that api answers with 500.
const failing = "/fails"

func fails(w http.ResponseWriter, r *http.Request, _ int) bool {
	if r.URL.Path == failing {
		w.WriteHeader(http.StatusInternalServerError)
	}
	return r.URL.Path == failing
}

// countingOn starts both machines in a mesh that has nothing yet.
func countingOn(t *testing.T, m *secureMesh) *counting {
	t.Helper()
	c := &counting{
		secureMesh: m, outside: newClient(t), http: newPort(t), grpc: newPort(t), tcp: newPort(t),
		toHTTP: newPort(t), toGRPC: newPort(t), tap: newPort(t),
	}
	app, talker := newBackend(t, "v1", fails), newGreeter(t, "api")
	c.commit(countsAll, with(`
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: api, namespace: shop}
spec:
  hosts: [api.mesh]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: TO_HTTP, name: http, protocol: HTTP}, {number: TO_GRPC, name: grpc, protocol: GRPC}, {number: TO_TCP, name: tcp, protocol: TCP}]
  endpoints: [{address: 127.0.0.1, serviceAccount: server, labels: {app: api, version: v1}, ports: {http: AT_HTTP, grpc: AT_GRPC, tcp: AT_TCP}}]
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: api, namespace: shop}
spec: {host: api.mesh, trafficPolicy: {connectionPool: {http: {maxRequestsPerConnection: 1}}}}
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: api, namespace: shop}
spec:
  egress: [{hosts: [~/*]}]
  ingress:
  - {port: {number: AT_HTTP, name: http, protocol: HTTP}, bind: 127.0.0.1, defaultEndpoint: '127.0.0.1:APP_HTTP'}
  - {port: {number: AT_GRPC, name: grpc, protocol: GRPC}, bind: 127.0.0.1, defaultEndpoint: '127.0.0.1:APP_GRPC'}
  - {port: {number: AT_TCP, name: tcp, protocol: TCP}, bind: 127.0.0.1, defaultEndpoint: '127.0.0.1:APP_TCP'}
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: web, namespace: bank}
spec:
  egress:
  - {port: {number: TO_HTTP, name: http, protocol: HTTP}, bind: 127.0.0.2, hosts: [shop/api.mesh]}
  - {port: {number: TO_GRPC, name: grpc, protocol: GRPC}, bind: 127.0.0.2, hosts: [shop/api.mesh]}
  - {port: {number: TO_TCP, name: tcp, protocol: TCP}, bind: 127.0.0.2, hosts: [shop/api.mesh]}
`, "AT_HTTP", c.http, "AT_GRPC", c.grpc, "AT_TCP", c.tcp, "TO_HTTP", c.toHTTP, "TO_GRPC", c.toGRPC, "TO_TCP", c.tap,
		"APP_HTTP", app.port, "APP_GRPC", healthServer(t), "APP_TCP", talker.port))
	c.server = c.member("shop/server", "server", "--labels", "app=api,version=v1")
	c.client = c.member("bank/teller", "client", "--labels", "app=web,version=v2", "--node-ip", "127.0.0.2")
	return c
}

// healthServer serves gRPC, and returns its port.
func healthServer(t *testing.T) string {
	t.Helper()
	l, s := listen(t), grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(s, health.NewServer())
	go func() { _ = s.Serve(l) }() // ends with Stop
	t.Cleanup(s.Stop)
	return portOf(t, l)
}

// series are those of Istio's standard metrics on an agent's page, by name and then by labels. Of
// histograms it has how many values they have, and for sizes their sum.
type series map[string]map[string]float64

func (c *counting) page(ctx context.Context, p *stack.Program) (series, error) {
	status, body, err := fetch(ctx, "http://"+p.HTTP()+"/stats/prometheus")
	if err != nil || status != http.StatusOK {
		return nil, fmt.Errorf("the page of metrics answers %d: %w", status, err)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	out := series{}
	for name, f := range families {
		if !strings.HasPrefix(name, "istio_") {
			continue
		}
		out[name] = map[string]float64{}
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			out[name][fmt.Sprint(labels)] += m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return out, err
}

// since returns what was counted after a page.
func (s series) since(before series) series {
	out := series{}
	for name, all := range s {
		for labels, value := range all {
			if more := value - before[name][labels]; more != 0 {
				if out[name] == nil {
					out[name] = map[string]float64{}
				}
				out[name][labels] = more
			}
		}
	}
	return out
}

// The labels that all of the test's series have, by the documentation of Istio's standard metrics.
var (
	sides = map[string]string{
		"source_workload": "web", "source_canonical_service": "web", "source_canonical_revision": "v2", "source_workload_namespace": "bank",
		"source_principal": "spiffe://cluster.local/ns/bank/sa/teller", "source_app": "web", "source_version": "v2", "source_cluster": "unknown",
		"destination_workload": "api", "destination_canonical_service": "api", "destination_canonical_revision": "v1",
		"destination_workload_namespace": "shop", "destination_principal": "spiffe://cluster.local/ns/shop/sa/server",
		"destination_app": "api", "destination_version": "v1", "destination_cluster": "unknown",
		"destination_service": "api.mesh", "destination_service_name": "api.mesh", "destination_service_namespace": "shop", "response_flags": "-",
	}
	atSource      = map[string]string{"reporter": "source", "connection_security_policy": "unknown"}
	atDestination = map[string]string{"reporter": "destination", "connection_security_policy": "mutual_tls"}
	ofHTTP        = map[string]string{"request_protocol": "http", "response_code": "200", "grpc_response_status": ""}
	ofGRPC        = map[string]string{"request_protocol": "grpc", "response_code": "200", "grpc_response_status": "0"}
	ofTCP         = map[string]string{"request_protocol": "tcp"}
	ofStranger    = map[string]string{
		"source_workload": "unknown", "source_canonical_service": "unknown", "source_canonical_revision": "latest", "source_workload_namespace": "unknown",
		"source_principal": "unknown", "source_app": "unknown", "source_version": "unknown", "source_cluster": "unknown",
		"destination_principal": "unknown", "connection_security_policy": "none",
	}
)

func labelled(parts ...map[string]string) string {
	out := map[string]string{}
	for _, p := range parts {
		maps.Copy(out, p)
	}
	return fmt.Sprint(out)
}

// counts has a client do something and waits until both machines have counted exactly this.
func (c *counting) counts(do func(), client, server series) {
	c.t.Helper()
	var before [2]series
	both := []*stack.Program{c.client, c.server}
	c.settled(both, &before)
	do()
	for i, wanted := range []series{client, server} {
		eventually(c.t, func(ctx context.Context) error {
			now, err := c.page(ctx, both[i])
			if err != nil {
				return err
			}
			if got := now.since(before[i]); fmt.Sprint(got) != fmt.Sprint(wanted) {
				return fmt.Errorf("counted\n%v, want\n%v", got, wanted)
			}
			return nil
		})
	}
}

// settled waits until histograms, which Envoy shows some seconds late, have what counters have.
func (c *counting) settled(programs []*stack.Program, into *[2]series) {
	c.t.Helper()
	for i, p := range programs {
		eventually(c.t, func(ctx context.Context) (err error) {
			if into[i], err = c.page(ctx, p); err != nil {
				return err
			}
			if fmt.Sprint(into[i]["istio_requests_total"]) != fmt.Sprint(into[i]["istio_request_bytes"]) {
				return errors.New("histograms are behind")
			}
			return nil
		})
	}
}

// requests are the metrics of that many requests with the same labels.
func requests(n float64, labels string) series {
	one := map[string]float64{labels: n}
	return series{"istio_requests_total": one, "istio_request_duration_milliseconds": one, "istio_request_bytes": one, "istio_response_bytes": one}
}

func TestBothSidesCountTheSame(t *testing.T) {
	t.Parallel()
	c := countingOn(t, newSecureMesh(t, nil, "--cert-lifetime", "2m"))
	c.introduced()

	c.counts(func() {
		for range 7 {
			status, err := c.get("127.0.0.2:" + c.toHTTP)
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, status)
		}
	}, requests(7, labelled(sides, atSource, ofHTTP)), requests(7, labelled(sides, atDestination, ofHTTP)))

	c.counts(func() {
		status, err := c.get("127.0.0.1:" + c.http) // of somebody outside
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status)
	}, series{}, requests(1, labelled(sides, atDestination, ofHTTP, ofStranger)))

	c.counts(func() { // clients that make up hosts, methods, paths and headers make no series
		for i := range 100 {
			made := fmt.Sprint("made-up-", i)
			a, err := send(c.t.Context(), c.outside, "127.0.0.1:"+c.http, request{host: made + ".example", path: "/" + made, header: http.Header{"X-Forwarded-Client-Cert": {"URI=spiffe://" + made}}})
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, a.status)
		}
	}, series{}, requests(100, labelled(sides, atDestination, ofHTTP, ofStranger)))

	calls := func(side map[string]string) series {
		s, labels := requests(3, labelled(sides, side, ofGRPC)), labelled(sides, side, ofGRPC)
		s["istio_request_messages_total"], s["istio_response_messages_total"] = map[string]float64{labels: 3}, map[string]float64{labels: 3}
		return s
	}
	c.counts(func() {
		for range 3 {
			require.NoError(t, c.call("127.0.0.2:"+c.toGRPC))
		}
	}, calls(atSource), calls(atDestination))

	connections := func(side map[string]string) series {
		labels := labelled(sides, side, ofTCP)
		return series{
			"istio_tcp_connections_opened_total": {labels: 2}, "istio_tcp_connections_closed_total": {labels: 2},
			"istio_tcp_received_bytes_total": {labels: 2 * float64(len(spoken))}, "istio_tcp_sent_bytes_total": {labels: 2 * float64(len("api\n")+len(spoken))},
		}
	}
	c.counts(func() {
		for range 2 {
			require.NoError(t, c.speak("127.0.0.2:"+c.tap))
		}
	}, connections(atSource), connections(atDestination))
}

// introduced waits until the server knows its client by its certificate: a machine has that say
// what it is called once it counts something.
func (c *counting) introduced() {
	c.t.Helper()
	eventually(c.t, func(ctx context.Context) error {
		if status, err := c.get("127.0.0.2:" + c.toHTTP); err != nil || status != http.StatusOK {
			return fmt.Errorf("answered %d: %w", status, err)
		}
		if _, err := c.page(ctx, c.client); err != nil {
			return err
		}
		at, err := c.page(ctx, c.server)
		if err == nil && at["istio_requests_total"][labelled(sides, atDestination, ofHTTP)] == 0 {
			err = fmt.Errorf("the server knows its client as %v", at["istio_requests_total"])
		}
		return err
	})
}

func (c *counting) get(address string) (status int, err error) { return c.getPath(address, "/") }

func (c *counting) getPath(address, path string) (status int, err error) {
	a, err := send(c.t.Context(), c.outside, address, request{host: "api.mesh", path: path})
	if err != nil {
		return 0, err
	}
	return a.status, nil
}

func (c *counting) call(address string) error {
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("api.mesh"))
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = grpc_health_v1.NewHealthClient(conn).Check(c.t.Context(), &grpc_health_v1.HealthCheckRequest{})
	return err
}

const spoken = "something that comes back\n"

// speak reads the server's name, and has it repeat something.
func (c *counting) speak(address string) error {
	conn, err := new(net.Dialer).DialContext(c.t.Context(), "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(spoken)); err != nil {
		return err
	}
	heard := make([]byte, len("api\n")+len(spoken))
	for n := 0; n < len(heard); {
		more, err := conn.Read(heard[n:])
		if err != nil {
			return err
		}
		n += more
	}
	return nil
}
