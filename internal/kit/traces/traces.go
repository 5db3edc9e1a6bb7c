// Package traces sends spans to a collector of OpenTelemetry, and never lets anybody wait for it:
// what the collector does not take in time is lost, and counted.
package traces

import (
	"context"
	"fmt"
	"log/slog"
	"net"

	"github.com/prometheus/client_golang/prometheus"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// Sender takes finished spans, and sends them. It is the processor of a program's spans.
type Sender struct {
	*queue
}

var _ sdk.SpanProcessor = (*Sender)(nil)

// Open returns a sender to an endpoint (see [Usage]), which connects in the background, by a dialer
// if one is given.
func Open(endpoint string, by *net.Dialer, log *slog.Logger, metrics prometheus.Registerer) (*Sender, error) {
	to, err := exporter(endpoint, by)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", endpoint, err)
	}
	return &Sender{newQueue(to, log, metrics)}, nil
}

// OnStart does nothing.
func (*Sender) OnStart(context.Context, sdk.ReadWriteSpan) {}

// OnEnd has a span sent, if there is room. It does not block.
func (s *Sender) OnEnd(span sdk.ReadOnlySpan) { s.add(span) }

// ForceFlush does nothing: spans are sent within a second.
func (*Sender) ForceFlush(context.Context) error { return nil }

// Shutdown sends what waits, within a moment, and ends the connection.
func (s *Sender) Shutdown(context.Context) error { return s.close() }
