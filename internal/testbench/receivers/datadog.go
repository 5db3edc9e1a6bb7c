package receivers

import (
	"context"
	"os"
	"os/exec"
	"testing"
)

// Datadog is a running agent of Datadog's for tests of tracers. It also looks whether what it gets
// is as Datadog's own tracers send it.
type Datadog struct {
	receiver

	// Port takes spans and questions.
	Port string
}

// DatadogSpan is a span as the agent shows it.
type DatadogSpan struct {
	TraceID  uint64 `json:"trace_id"`
	SpanID   uint64 `json:"span_id"`
	ParentID uint64 `json:"parent_id"`
	Service  string
	Name     string
	Resource string
	Meta     map[string]string
}

// StartDatadog starts an agent.
func StartDatadog(t testing.TB) *Datadog {
	t.Helper()
	d := &Datadog{Port: newPort(t)}
	cmd := exec.Command("python3", "-m", "ddapm_test_agent.agent", "--port", d.Port, "--otlp-http-port", newPort(t), "--otlp-grpc-port", newPort(t),
		"--snapshot-dir", t.TempDir(), "--pool-trace-check-failures", "true")
	cmd.Env = append(os.Environ(), "PYTHONPATH="+tools(t)+"/datadog",
		"ENABLED_CHECKS=trace_count_header,meta_tracer_version_header")
	d.start(t, cmd, func(ctx context.Context) error { return get(ctx, d.url("/info"), nil) })
	return d
}

func (d *Datadog) url(path string) string { return "http://127.0.0.1:" + d.Port + path }

// Traces returns all traces, each with its spans that came together.
func (d *Datadog) Traces(ctx context.Context) (traces [][]DatadogSpan, err error) {
	return traces, get(ctx, d.url("/test/traces"), &traces)
}

// Complaints is an error if something of what came is not as tracers of Datadog's send it.
func (d *Datadog) Complaints(ctx context.Context) error {
	return get(ctx, d.url("/test/trace_check/failures"), nil)
}
