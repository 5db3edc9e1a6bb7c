// Package collector is a collector of traces, as OpenTelemetry's, for tests: it takes spans by OTLP
// over gRPC and over HTTP, and keeps them.
package collector

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/internal/kit/panics"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
)

// Collector keeps what it is sent.
type Collector struct {
	collectorv1.UnimplementedTraceServiceServer

	grpc, http string

	mu       sync.Mutex
	spans    []Span
	messages int
}

// Span is one that was sent, with the service that it is of.
type Span struct {
	*tracev1.Span

	Service, Instance string
}

// New starts a collector on free ports of loopback.
func New(t testing.TB) *Collector {
	t.Helper()
	return At(t, "127.0.0.1:0")
}

// At starts a collector with an address for OTLP over gRPC.
func At(t testing.TB, address string) *Collector {
	t.Helper()
	c := &Collector{}
	l, err := net.Listen("tcp", address)
	require.NoError(t, err)
	server := grpc.NewServer(panics.ServerOptions()...)
	collectorv1.RegisterTraceServiceServer(server, c)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	web := httptest.NewServer(panics.Handler(http.HandlerFunc(c.post)))
	t.Cleanup(func() {
		web.Close()
		server.Stop()
		require.NoError(t, <-served)
	})
	c.grpc, c.http = "grpc://"+l.Addr().String(), web.URL
	return c
}

// GRPC is the endpoint for OTLP over gRPC.
func (c *Collector) GRPC() string { return c.grpc }

// HTTP is that for OTLP over HTTP.
func (c *Collector) HTTP() string { return c.http }

// Export takes spans.
func (c *Collector) Export(_ context.Context, r *collectorv1.ExportTraceServiceRequest) (*collectorv1.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.messages++
	for _, of := range r.GetResourceSpans() {
		for _, scope := range of.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				about := of.GetResource().GetAttributes()
				c.spans = append(c.spans, Span{s, text(about, "service.name"), text(about, "service.instance.id")})
			}
		}
	}
	return &collectorv1.ExportTraceServiceResponse{}, nil
}

func (c *Collector) post(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	message := &collectorv1.ExportTraceServiceRequest{}
	if err == nil {
		err = proto.Unmarshal(body, message)
	}
	if err != nil || r.URL.Path != "/v1/traces" {
		http.Error(w, fmt.Sprint(r.URL.Path, err), http.StatusBadRequest)
		return
	}
	answer, _ := c.Export(r.Context(), message)
	out, _ := proto.Marshal(answer)
	w.Header().Set("content-type", "application/x-protobuf")
	_, _ = w.Write(out)
}

// Messages counts what was sent.
func (c *Collector) Messages() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.messages
}

// Spans returns those of a trace, by its id in hexadecimal.
func (c *Collector) Spans(id string) (of []Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if hex.EncodeToString(s.GetTraceId()) == id {
			of = append(of, s)
		}
	}
	return of
}

// Traces returns the ids of all traces.
func (c *Collector) Traces() (ids []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if id := hex.EncodeToString(s.GetTraceId()); !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// Await waits until a trace has a span of each of these names, as SERVICE/NAME, and returns its
// spans.
func (c *Collector) Await(t testing.TB, id string, names ...string) (spans []Span) {
	t.Helper()
	poll.Eventually(t, func(context.Context) error {
		spans = c.Spans(id)
		var missing []error
		for _, name := range names {
			if Find(spans, name).Span == nil {
				missing = append(missing, errors.New("no span "+name))
			}
		}
		return errors.Join(missing...)
	})
	return spans
}

// Find returns the first span of a name, as SERVICE/NAME.
func Find(spans []Span, name string) Span {
	for _, s := range spans {
		if s.Service+"/"+s.GetName() == name {
			return s
		}
	}
	return Span{}
}

// Value returns an attribute, as a text; "" if there is none.
func (s Span) Value(key string) string { return text(s.GetAttributes(), key) }

func text(attributes []*commonv1.KeyValue, key string) string {
	for _, a := range attributes {
		if a.GetKey() == key {
			return textOf(a.GetValue())
		}
	}
	return ""
}

func textOf(v *commonv1.AnyValue) string {
	switch v := v.GetValue().(type) {
	case *commonv1.AnyValue_StringValue:
		return v.StringValue
	case *commonv1.AnyValue_IntValue:
		return fmt.Sprint(v.IntValue)
	case *commonv1.AnyValue_ArrayValue:
		var all []string
		for _, one := range v.ArrayValue.GetValues() {
			all = append(all, textOf(one))
		}
		return fmt.Sprint(all)
	default:
		return fmt.Sprint(v)
	}
}
