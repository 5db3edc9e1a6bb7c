// Package tracing makes one trace of each revision, from the transaction to the proxies.
//
// Nothing of a trace travels: each program knows the mesh and the revision, and the id of the trace,
// and that of its first span, follow from those. By the same id all programs decide alike whether a
// revision is traced at all. Spans are recorded once they are over.
package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"net"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/pgmesh/pgmesh/internal/kit/traces"
	"github.com/pgmesh/pgmesh/internal/kit/version"
)

// Options are what the flags set. The zero value traces nothing.
type Options struct {
	To    string
	Share float64
	// Dialer makes the connections to the collector; nil for any.
	Dialer *net.Dialer
}

// Flags declares the flags.
func (o *Options) Flags(f *pflag.FlagSet) {
	f.StringVar(&o.To, "traces-to", "", "where to send a trace of each revision to, from its transaction to the proxies: "+traces.Usage+"; empty: there are none")
	f.Float64Var(&o.Share, "traces-share", 1, "the share of the revisions that are traced, from 0 to 1. All programs choose the same ones, if they are given the same share")
}

// Tracer records the spans of one program. A nil one records nothing, and costs nothing.
type Tracer struct {
	share    float64
	sender   *traces.Sender
	own      trace.Tracer
	database trace.Tracer
}

// Open returns the tracer of a program that is called by this name in the mesh; nil if nothing is
// to be traced.
func (o *Options) Open(program, name string, log *slog.Logger, metrics prometheus.Registerer) (*Tracer, error) {
	if o.Share < 0 || o.Share > 1 {
		return nil, fmt.Errorf("--traces-share %g: it is a share from 0 to 1, such as 0.1 for every tenth revision", o.Share)
	}
	if o.To == "" || o.Share == 0 {
		return nil, nil
	}
	sender, err := traces.Open(o.To, o.Dialer, log, metrics)
	if err != nil {
		return nil, fmt.Errorf("--traces-to %w", err)
	}
	return &Tracer{
		share: o.Share, sender: sender,
		own: tracer(sender, attribute.String("service.name", program), attribute.String("service.instance.id", name),
			attribute.String("service.version", version.Of())),
		database: tracer(sender, attribute.String("service.name", Database)),
	}, nil
}

// Database is the service that the first span of each trace is of.
const Database = "postgres"

// tracer returns one of a service. Its limits are those of this package, not of the environment.
func tracer(sender *traces.Sender, service ...attribute.KeyValue) trace.Tracer {
	provider := sdk.NewTracerProvider(
		sdk.WithSpanProcessor(sender), sdk.WithSampler(sdk.AlwaysSample()), sdk.WithIDGenerator(given{}),
		sdk.WithResource(resource.NewSchemaless(append(service, attribute.String("service.namespace", "pgmesh"))...)),
		sdk.WithRawSpanLimits(sdk.SpanLimits{
			AttributeValueLengthLimit: maxValueBytes, AttributeCountLimit: 100, EventCountLimit: 100, LinkCountLimit: MostMerged,
			AttributePerEventCountLimit: 20, AttributePerLinkCountLimit: 20, AttributeValueDepthLimit: 2,
		}),
	)
	return provider.Tracer("github.com/pgmesh/pgmesh")
}

// maxValueBytes bounds what others wrote, such as the reason of a refusal.
const maxValueBytes = 1024

// Close sends what waits.
func (t *Tracer) Close(log *slog.Logger) {
	if t == nil {
		return
	}
	if err := t.sender.Shutdown(context.Background()); err != nil {
		log.Warn("the last traces may be lost", "error", err)
	}
}
