package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	alsv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	"github.com/stretchr/testify/require"
	collectlogsv1 "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	collecttracev1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// telemetryCollector takes logs and traces in the protocols of those who send them: OpenTelemetry's over
// gRPC and HTTP, Zipkin's, and Envoy's own for access logs. It keeps a line for each entry.
type telemetryCollector struct {
	collecttracev1.UnimplementedTraceServiceServer
	alsv3.UnimplementedAccessLogServiceServer

	grpc, http string // ports

	mu    sync.Mutex
	lines []string
}

func newCollector(t testing.TB) *telemetryCollector {
	t.Helper()
	l := listen(t)
	c := &telemetryCollector{grpc: portOf(t, l)}
	server, served := grpc.NewServer(), make(chan error, 1)
	collectlogsv1.RegisterLogsServiceServer(server, c.logs())
	collecttracev1.RegisterTraceServiceServer(server, c)
	alsv3.RegisterAccessLogServiceServer(server, c)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		require.NoError(t, <-served)
	})
	c.http = newBackend(t, "collector", c.post).port
	return c
}

func (c *telemetryCollector) addf(format string, about ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, fmt.Sprintf(format, about...))
}

// find returns the newest line with all of these parts.
func (c *telemetryCollector) find(parts ...string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, line := range slices.Backward(c.lines) {
		if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) }) {
			return line, nil
		}
	}
	last := c.lines[max(0, len(c.lines)-2):]
	return "", fmt.Errorf("none of %d lines has %q, the last ones are\n%s", len(c.lines), parts, strings.Join(last, "\n"))
}

// Export takes traces.
func (c *telemetryCollector) Export(ctx context.Context, in *collecttracev1.ExportTraceServiceRequest) (*collecttracev1.ExportTraceServiceResponse, error) {
	given, _ := metadata.FromIncomingContext(ctx)
	c.spans("grpc token="+strings.Join(given.Get("x-token"), ","), in)
	return &collecttracev1.ExportTraceServiceResponse{}, nil
}

func (c *telemetryCollector) spans(by string, in *collecttracev1.ExportTraceServiceRequest) {
	for _, resource := range in.GetResourceSpans() {
		of := texts(resource.GetResource().GetAttributes())
		for _, scope := range resource.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				c.addf("span %s of %s: %s %s", by, of, span.GetName(), texts(span.GetAttributes()))
			}
		}
	}
}

// logServer takes logs: both services of OpenTelemetry have a method Export.
type logServer struct {
	collectlogsv1.UnimplementedLogsServiceServer

	*telemetryCollector
}

func (c *telemetryCollector) logs() *logServer { return &logServer{telemetryCollector: c} }

// Export takes logs.
func (s *logServer) Export(_ context.Context, in *collectlogsv1.ExportLogsServiceRequest) (*collectlogsv1.ExportLogsServiceResponse, error) {
	for _, resource := range in.GetResourceLogs() {
		of := texts(resource.GetResource().GetAttributes())
		for _, scope := range resource.GetScopeLogs() {
			for _, record := range scope.GetLogRecords() {
				s.addf("otlp log of %s: %s %s", of, record.GetBody().GetStringValue(), texts(record.GetAttributes()))
			}
		}
	}
	return &collectlogsv1.ExportLogsServiceResponse{}, nil
}

// StreamAccessLogs takes Envoy's own entries.
func (c *telemetryCollector) StreamAccessLogs(stream alsv3.AccessLogService_StreamAccessLogsServer) error {
	name := ""
	for {
		in, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return stream.SendAndClose(&alsv3.StreamAccessLogsResponse{})
		}
		if err != nil {
			return err
		}
		if id := in.GetIdentifier(); id != nil {
			name = id.GetLogName()
		}
		for _, entry := range in.GetHttpLogs().GetLogEntry() {
			c.addf("als %s: %s %d", name, entry.GetRequest().GetPath(), entry.GetResponse().GetResponseCode().GetValue())
		}
		for _, entry := range in.GetTcpLogs().GetLogEntry() {
			c.addf("als %s: tcp %s", name, entry.GetCommonProperties().GetUpstreamCluster())
		}
	}
}

// post takes spans over HTTP.
func (c *telemetryCollector) post(w http.ResponseWriter, r *http.Request, _ int) bool {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return false
	}
	by := fmt.Sprintf("%s host=%s token=%s", r.URL.Path, r.Host, r.Header.Get("X-Token"))
	if r.Header.Get("Content-Type") == "application/x-protobuf" {
		in := &collecttracev1.ExportTraceServiceRequest{}
		if err := proto.Unmarshal(body, in); err != nil {
			c.addf("%s sent no spans of OpenTelemetry: %v", by, err)
		}
		c.spans(by, in)
	} else {
		var spans []struct {
			Name string
			Kind string
			Tags map[string]string
		}
		if err := json.Unmarshal(body, &spans); err != nil {
			c.addf("%s sent no spans of Zipkin: %v", by, err)
		}
		for _, s := range spans {
			c.addf("span %s: %s %s %v", by, s.Kind, s.Name, s.Tags)
		}
	}
	w.WriteHeader(http.StatusAccepted)
	return true
}

// texts writes attributes as name=value.
func texts(attributes []*commonv1.KeyValue) string {
	out := make([]string, len(attributes))
	for i, a := range attributes {
		out[i] = a.GetKey() + "=" + a.GetValue().GetStringValue()
	}
	return strings.Join(out, " ")
}
