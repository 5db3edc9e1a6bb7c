package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
)

func telemetry(name, spec string) string {
	return fmt.Sprintf("apiVersion: telemetry.istio.io/v1\nkind: Telemetry\nmetadata: {name: %s}\nspec: {%s}\n", name, spec)
}

// collected is a mesh of its own with a collector: extension providers are for a whole mesh.
type collected struct {
	*mesh
	*telemetryCollector

	folder string
}

func newCollected(t *testing.T, providers ...string) *collected {
	t.Helper()
	database := pgtest.New(t)
	control := newStack(t, database)
	require.NoError(t, control.Start(t.Context()))
	m := &collected{mesh: meshWithoutEnvoy(t, control, database), telemetryCollector: newCollector(t), folder: t.TempDir()}
	app := newBackend(t, "app", func(w http.ResponseWriter, r *http.Request, _ int) bool {
		if r.URL.Path == "/missing" {
			w.WriteHeader(http.StatusNotFound)
		}
		return r.URL.Path == "/missing"
	})
	for i, p := range providers {
		providers[i] = strings.ReplaceAll(p, "FOLDER", m.folder)
	}
	m.commit(asking(providers...), m.service("app.mesh", app),
		entry("grpc.mesh", "GRPC", "grpc", "4317", []string{endpoint("v1", "grpc", m.grpc)}),
		entry("http.mesh", "HTTP", "http", "4318", []string{endpoint("v1", "http", m.http)}))
	m.startAgent()
	m.answers("app.mesh", "app")
	t.Cleanup(func() {
		require.NoError(t, refusals(context.WithoutCancel(t.Context()), control.Discovery))
	})
	return m
}

// asks sends requests until the collector has a line with all of these parts.
func (m *collected) asks(t *testing.T, path string, parts ...string) string {
	t.Helper()
	var line string
	eventually(t, func(ctx context.Context) error {
		if _, err := m.ask(ctx, request{host: "app.mesh", path: path}); err != nil {
			return err
		}
		var err error
		line, err = m.find(parts...)
		return err
	})
	return line
}

func TestTelemetryWritesAccessLogs(t *testing.T) {
	t.Parallel()
	m := newCollected(
		t, "{name: file, envoyFileAccessLog: {path: FOLDER/access.log, logFormat: {text: 'GOT %REQ(:PATH)% %RESPONSE_CODE%'}}}",
		"{name: als, envoyHttpAls: {service: grpc.mesh, port: 4317, logName: mine}}", "{name: tcp, envoyTcpAls: {service: grpc.mesh, port: 4317}}",
		"{name: otel, envoyOtelAls: {service: grpc.mesh, port: 4317, logFormat: {text: 'GOT %REQ(:PATH)%', labels: {code: '%RESPONSE_CODE%'}}}}",
	)
	m.mesh.commit(telemetry("logs", "accessLogging: [{providers: [{name: file}], filter: {expression: 'response.code >= 400'}}]"))
	file := filepath.Join(m.folder, "access.log")
	eventually(t, func(ctx context.Context) error {
		for _, path := range []string{"/good", "/missing"} {
			if _, err := m.ask(ctx, request{host: "app.mesh", path: path}); err != nil {
				return err
			}
		}
		text, err := os.ReadFile(file)
		if err == nil && !strings.Contains(string(text), "GOT /missing 404\n") {
			err = fmt.Errorf("the log has %q", text)
		}
		return err
	})
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NotContains(t, string(text), "/good", "the filter leaves it out")

	m.mesh.commit(telemetry("logs", "accessLogging: [{match: {mode: CLIENT}, providers: [{name: als}, {name: otel}, {name: tcp}]}]"))
	m.asks(t, "/als", "als mine: /als 200")
	m.asks(t, "/otel", "otlp log", "GOT /otel", "code=200")
	m.mesh.commit(telemetry("logs", "accessLogging: [{match: {mode: SERVER}, providers: [{name: als}]}, {match: {mode: CLIENT}, providers: [{name: otel}], filter: {expression: request.url_path == '/only'}}]"))
	m.asks(t, "/only", "otlp log", "GOT /only")
}

func TestTelemetrySendsTraces(t *testing.T) {
	t.Parallel()
	m := newCollected(
		t, "{name: zipkin, zipkin: {service: http.mesh, port: 4318, headers: [{name: x-token, value: 'o%ne'}]}}",
		"{name: grpc, opentelemetry: {service: grpc.mesh, port: 4317, grpc: {initialMetadata: [{name: x-token, value: two}]}}}",
		"{name: http, opentelemetry: {service: http.mesh, port: 4318, http: {path: /v1/traces, headers: [{name: x-token, envName: PATH}, {name: x-plain, value: 'a%b'}]}}}",
		"{name: rich, opentelemetry: {service: grpc.mesh, port: 4317, serviceAttributeEnrichment: OTEL_SEMANTIC_CONVENTIONS, resourceDetectors: {environment: {}, dynatrace: {}}}}",
		"{name: gone, zipkin: {service: gone.mesh, port: 1}}",
	)
	traces := func(provider, more string) string {
		return telemetry("traces", "tracing: [{providers: [{name: "+provider+"}], randomSamplingPercentage: 100, customTags: {by: {literal: {value: "+provider+"}}, method: {formatter: {value: '%REQ(:METHOD)%'}}"+more+"}}]")
	}
	m.mesh.commit(traces("zipkin", ""))
	m.asks(t, "/a", "span /api/v2/spans host=http.mesh token=o%ne", "CLIENT", "by:zipkin", "method:GET", "http.status_code:200", "istio.namespace:"+m.namespace)
	m.mesh.commit(traces("grpc", ", agent: {header: {name: user-agent}}"))
	m.asks(t, "/a", "span grpc token=two", "by=grpc", "method=GET", "agent=Go-http-client/1.1")
	m.mesh.commit(traces("http", ""))
	m.asks(t, "/a", "span /v1/traces host=http.mesh token="+os.Getenv("PATH"), "by=http")
	m.mesh.commit(traces("rich", ""))
	m.asks(t, "/a", "span grpc", "by=rich", "service.name=client")

	// What cannot be sent to is left out, and requests go on.
	m.mesh.commit(traces("gone", ""))
	m.mesh.answers("app.mesh", "app")
}
