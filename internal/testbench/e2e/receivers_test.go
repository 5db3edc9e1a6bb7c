package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/receivers"
)

// documented returns the blocks of YAML of a page: the configuration of a collector, and resources
// that send to it.
func documented(t *testing.T, page string, blocks int) (yaml []string) {
	t.Helper()
	text, err := os.ReadFile("../../../docs/" + page)
	require.NoError(t, err)
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		yaml = append(yaml, block[1])
	}
	require.Len(t, yaml, blocks)
	return yaml
}

// sendingTo writes the ports of a collector of the test into resources.
func sendingTo(o *receivers.OpenTelemetry, resources string) string {
	return strings.Replace(resources, "address: 10.0.0.9",
		fmt.Sprintf("address: 127.0.0.1, ports: {grpc: %s, http: %s, http-zipkin: %s}", o.GRPC, o.HTTP, o.Zipkin), 1)
}

// span is one as all receivers have it.
type span struct {
	id, parent, kind, service string
	tags                      map[string]string
}

// received is a mesh of two machines whose requests receivers of others are told of.
type received struct {
	*counting
}

func newReceived(t *testing.T) *received {
	t.Helper()
	return &received{countingOn(t, newSecureMesh(t, nil))}
}

// inTraceparent and inB3 find the id of a trace in the headers that the server is sent.
var (
	inTraceparent = map[string]*regexp.Regexp{"Traceparent": regexp.MustCompile(`^00-([0-9a-f]{32})-[0-9a-f]{16}-01$`)}
	inB3          = map[string]*regexp.Regexp{"X-B3-Traceid": regexp.MustCompile(`^([0-9a-f]{16,32})$`)}
	inDatadog     = map[string]*regexp.Regexp{"X-Datadog-Trace-Id": regexp.MustCompile(`^([0-9]+)$`)}
)

// request sends one, and returns the id of its trace.
func (r *received) request(ctx context.Context, path string, in map[string]*regexp.Regexp) (trace string, err error) {
	a, err := send(ctx, r.outside, "127.0.0.2:"+r.toHTTP, request{host: "api.mesh", path: path})
	if err != nil {
		return "", err
	}
	for header, id := range in {
		if found := id.FindStringSubmatch(a.seen.Header.Get(header)); found != nil {
			return found[1], nil
		}
	}
	return "", fmt.Errorf("answered %d, and the server is sent %v", a.status, a.seen.Header)
}

// traced sends requests until the trace of one has a span of each side, and looks at both.
func (r *received) traced(path string, in map[string]*regexp.Regexp, spans func(ctx context.Context, trace string) ([]span, error)) {
	r.t.Helper()
	var traces []string
	var both []span
	eventually(r.t, func(ctx context.Context) error {
		trace, err := r.request(ctx, path, in)
		if err != nil {
			return err
		}
		traces = append(traces, trace)
		for _, id := range traces[max(0, len(traces)-20):] {
			if both, err = spans(ctx, id); err == nil && len(both) == 2 && both[0].tags["by"] == path && both[1].tags["by"] == path {
				return nil
			}
		}
		return errors.Join(err, fmt.Errorf("of %d traces none has spans of both sides, but %v", len(traces), both))
	})
	if both[0].kind == "server" {
		slices.Reverse(both)
	}
	client, server := both[0], both[1]
	require.Equal(r.t, []string{"client", "server"}, []string{client.kind, server.kind})
	require.Empty(r.t, strings.Trim(client.parent, "0"), "the client begins the trace")
	require.Equal(r.t, client.id, server.parent)
	require.Equal(r.t, []string{"web.bank", "api.shop"}, []string{client.service, server.service})
	r.tagged(client, path, "web", "v2", "bank")
	r.tagged(server, path, "api", "v1", "shop")
}

// tagged looks at what is said of a span.
func (r *received) tagged(s span, path, service, revision, namespace string) {
	r.t.Helper()
	for tag, want := range map[string]string{
		"http.method": "GET", "http.url": "http://api.mesh" + path, "component": "proxy", "by": path,
		"istio.canonical_service": service, "istio.canonical_revision": revision, "istio.namespace": namespace,
	} {
		require.Equal(r.t, want, s.tags[tag], "%s of the %s in %v", tag, s.kind, s.tags)
	}
	require.Equal(r.t, "200", cmp.Or(s.tags["http.status_code"], s.tags["http.response.status_code"]), "%v", s.tags) // the collector renames Zipkin's
}

// by has all requests traced by a provider, with a path as a tag.
func by(provider, path string) string {
	return telemetry("mesh, namespace: istio-system", "metrics: [{providers: [{name: prometheus}]}], tracing: [{providers: [{name: "+provider+"}], randomSamplingPercentage: 100, customTags: {by: {literal: {value: "+path+"}}}}]")
}

// spansIn are those that a collector has of a trace.
func spansIn(o *receivers.OpenTelemetry) func(context.Context, string) ([]span, error) {
	return func(_ context.Context, trace string) (of []span, err error) {
		all, err := o.Spans()
		for _, s := range all {
			if s.TraceID == trace {
				of = append(of, span{s.SpanID, s.ParentSpanID, map[int]string{receivers.Server: "server", receivers.Client: "client"}[s.Kind], s.Resource["service.name"], s.Attributes})
			}
		}
		return of, err
	}
}

func TestReceiversOpenTelemetry(t *testing.T) {
	t.Parallel()
	yaml := documented(t, "telemetry.md", 2)
	o := receivers.StartOpenTelemetry(t, yaml[0])
	r := newReceived(t)
	r.commit(sendingTo(o, yaml[1]))
	spans := spansIn(o)
	eventually(t, func(ctx context.Context) error {
		if _, err := r.request(ctx, "/logged", inTraceparent); err != nil {
			return err
		}
		return r.logged(o, "/logged")
	})

	r.commit(asking("{name: http, opentelemetry: {service: collector.ops, port: 4318, http: {path: /v1/traces}}}",
		"{name: grpc, opentelemetry: {service: collector.ops, port: 4317}}", "{name: zipkin, zipkin: {service: collector.ops, port: 9411}}"), by("grpc", "/grpc"))
	r.traced("/grpc", inTraceparent, spans)
	r.commit(by("http", "/http"))
	r.traced("/http", inTraceparent, spans)
	r.commit(by("zipkin", "/zipkin"))
	r.traced("/zipkin", inB3, spans)
}

// logged is an error unless the collector has a record of a request from each side, of its trace.
func (r *received) logged(o *receivers.OpenTelemetry, path string) error {
	logs, err := o.Logs()
	if err != nil {
		return err
	}
	spans, err := o.Spans()
	if err != nil {
		return err
	}
	sides := map[int]bool{}
	for _, l := range logs {
		for _, s := range spans {
			if s.SpanID == l.SpanID && s.TraceID == l.TraceID && strings.Contains(string(l.Body), `"GET `+path+` HTTP/1.1" 200`) {
				sides[s.Kind] = true
			}
		}
	}
	if len(sides) != 2 {
		return fmt.Errorf("of %d records and %d spans those of %v belong together", len(logs), len(spans), sides)
	}
	return nil
}

// outsider is a ServiceEntry for a receiver, which is no member of the mesh.
func outsider(host, port string) string {
	return "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: " + host + ", namespace: ops}\nspec: {hosts: [" + host +
		"], location: MESH_EXTERNAL, resolution: STATIC, ports: [{name: http, number: 80, protocol: HTTP}], endpoints: [{address: 127.0.0.1, ports: {http: " + port + "}}]}\n"
}

func TestReceiversZipkin(t *testing.T) {
	t.Parallel()
	z := receivers.StartZipkin(t)
	r := newReceived(t)
	r.commit(outsider("zipkin.ops", z.Port), asking("{name: zipkin, zipkin: {service: zipkin.ops, port: 80}}",
		"{name: short, zipkin: {service: zipkin.ops, port: 80, enable64bitTraceId: true, traceContextOption: USE_B3_WITH_W3C_PROPAGATION}}"), by("zipkin", "/zipkin"))
	spans := func(ctx context.Context, trace string) (of []span, err error) {
		all, err := z.Trace(ctx, trace)
		for _, s := range all {
			of = append(of, span{s.ID, s.ParentID, strings.ToLower(s.Kind), s.LocalEndpoint.ServiceName, s.Tags})
		}
		return of, err
	}
	r.traced("/zipkin", inB3, spans)
	r.commit(by("short", "/short"))
	r.traced("/short", inB3, spans)
}

func TestReceiversDatadog(t *testing.T) {
	t.Parallel()
	d := receivers.StartDatadog(t)
	r := newReceived(t)
	r.commit(outsider("datadog.ops", d.Port), asking("{name: datadog, datadog: {service: datadog.ops, port: 80}}"), by("datadog", "/datadog"))
	r.traced("/datadog", inDatadog, func(ctx context.Context, trace string) (of []span, err error) {
		all, err := d.Traces(ctx)
		for _, s := range slices.Concat(all...) {
			if strconv.FormatUint(s.TraceID, 10) == trace {
				kind := "server" // Envoy does not tell Datadog which
				if s.ParentID == 0 {
					kind = "client"
				}
				of = append(of, span{strconv.FormatUint(s.SpanID, 10), strconv.FormatUint(s.ParentID, 10), kind, s.Service, s.Meta})
			}
		}
		return of, err
	})
	require.NoError(t, d.Complaints(t.Context()))
}

// A change is one trace of OpenTelemetry, whichever way the programs send it.
func TestReceiversTakeTheTraceOfAChange(t *testing.T) {
	t.Parallel()
	o := receivers.StartOpenTelemetry(t, documented(t, "telemetry.md", 2)[0])
	database := pgtest.New(t)
	control := newStack(t, database)
	control.ServerFlags("--traces-to", "grpc://127.0.0.1:"+o.GRPC)
	control.DiscoveryFlags("--traces-to", "http://127.0.0.1:"+o.HTTP)
	require.NoError(t, control.Start(t.Context()))
	m := meshOn(t, control, database, "--traces-to", "grpc://127.0.0.1:"+o.GRPC)
	m.awaitProxyState("synced")
	m.commit(m.service(reviews, newBackend(t, "v1", nil)))
	revision, trace := m.newest()
	var spans []receivers.Entry
	eventually(t, func(context.Context) error {
		all, err := o.Spans()
		names := map[string]bool{}
		spans = nil
		for _, s := range all {
			if s.TraceID == trace {
				spans, names[s.Resource["service.name"]+"/"+s.Name] = append(spans, s), true
			}
		}
		for _, name := range []string{"postgres/commit", "mcp-server/publish", "mcp-server/send", "discovery/roll out", "discovery/wait", "discovery/build", "discovery/push", "mesh-agent/relay"} {
			if !names[name] {
				err = errors.Join(err, errors.New("no "+name))
			}
		}
		return err
	})
	parents := map[string]bool{"": true}
	for _, s := range spans {
		parents[s.SpanID] = true
	}
	for _, s := range spans {
		require.True(t, parents[s.ParentSpanID], "the parent of %s is in the trace", s.Name)
		require.Equal(t, strconv.FormatInt(revision, 10), s.Attributes["pgmesh.revision"])
	}
}
