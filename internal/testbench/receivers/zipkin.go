package receivers

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"
)

// Zipkin is a running server of Zipkin, which keeps spans in memory.
type Zipkin struct {
	receiver

	// Port takes spans and questions.
	Port string
}

// ZipkinSpan is a span as Zipkin's API shows it.
type ZipkinSpan struct {
	TraceID, ID, ParentID string
	Kind, Name            string
	LocalEndpoint         struct{ ServiceName string }
	Tags                  map[string]string
}

// StartZipkin starts a server.
func StartZipkin(t testing.TB) *Zipkin {
	t.Helper()
	z := &Zipkin{Port: newPort(t)}
	cmd := exec.Command("java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-jar", filepath.Join(tools(t), "zipkin", "zipkin.jar"),
		"--armeria.ports[0].ip=127.0.0.1", "--armeria.ports[0].port="+z.Port, "--armeria.ports[0].protocols[0]=http")
	z.start(t, cmd, func(ctx context.Context) error { return get(ctx, z.url("/health"), nil) })
	return z
}

func (z *Zipkin) url(path string) string { return "http://127.0.0.1:" + z.Port + path }

// Trace returns the spans of a trace.
func (z *Zipkin) Trace(ctx context.Context, id string) (spans []ZipkinSpan, err error) {
	return spans, get(ctx, z.url("/api/v2/trace/"+id), &spans)
}
