package legacy

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"

	"github.com/pgmesh/pgmesh/internal/kit/panics"
	"github.com/pgmesh/pgmesh/internal/kit/retry"
	"github.com/pgmesh/pgmesh/internal/listen"
	"github.com/pgmesh/pgmesh/internal/program"
	legacyv1 "github.com/pgmesh/pgmesh/proto/istio/mcp/v1alpha1"
)

// Sink is a sink that is dialled.
type Sink struct {
	Address    string
	Metadata   map[string]string // headers
	Transport  listen.Transport
	ServerName string // the name in its certificate, if not the address's
	ServerID   string // its SPIFFE id
}

func (s Sink) equal(o Sink) bool {
	return s.Transport == o.Transport && s.Address == o.Address && s.ServerName == o.ServerName && s.ServerID == o.ServerID && maps.Equal(s.Metadata, o.Metadata)
}

// Galley redials after a second each time. This server backs off from a sink that is away for long.
var redialling = retry.Pauses{First: 500 * time.Millisecond, Longest: 30 * time.Second}

// stableAfter is how long a stream must last to count as a success. Its error is logged even if it
// is the same as before.
const stableAfter = 10 * time.Second

// dialer keeps a stream to one sink.
type dialer struct {
	source *Source
	sink   Sink
	log    *slog.Logger
	report *sinkReport
}

// run dials until the context ends.
func (c *dialer) run(ctx context.Context) {
	connected := c.source.metrics.connected.WithLabelValues(c.sink.Address)
	failures := c.source.metrics.failures.WithLabelValues(c.sink.Address)
	connected.Set(0)
	_ = retry.Loop{
		Pauses: redialling, Stable: stableAfter,
		Failed: func(err error, _ time.Duration) {
			failures.Inc()
			c.report.failed(err)
		},
		Reason: func(err error, _ time.Duration) {
			c.log.Warn("cannot serve a sink; it keeps what it has, and the server goes on trying", "error", err)
		},
	}.Forever(ctx, func(func()) error {
		defer connected.Set(0)
		return panics.Try("sink", func() error {
			return c.call(ctx, func() {
				connected.Set(1)
				c.report.connected()
			})
		})
	})
}

var errStreamEnded = errors.New("the sink has ended the stream")

// call serves the sink over one stream. It calls heard for each message of the sink.
func (c *dialer) call(ctx context.Context, heard func()) error {
	credentials, err := c.source.cfg.Credentials(c.sink)
	if err != nil {
		return err
	}
	conn, err := grpc.NewClient(c.sink.Address, grpc.WithDisableServiceConfig(), grpc.WithTransportCredentials(credentials), grpc.WithUserAgent("pgmesh/"+program.Version()),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, hangUp := context.WithCancel(metadata.NewOutgoingContext(ctx, metadata.New(c.sink.Metadata)))
	defer hangUp()
	stream, err := legacyv1.NewResourceSinkClient(conn).EstablishResourceStream(ctx)
	if err != nil {
		return err
	}
	// A server may not see the stream before the first message on it.
	if err := stream.Send(&legacyv1.Resources{Collection: legacyv1.TriggerCollection}); err != nil {
		return err
	}
	view := c.source.cfg.Everything()
	defer view.Close()
	w := exchange{stream, c.source.reader(ctx), heard}
	requests, failed := receive(ctx, w)
	err = c.source.stream(ctx, "ResourceSink", c.sink.Address, w, view, requests, failed)
	hangUp()
	for range failed { // wait until the receiver has ended
	}
	if err == nil {
		return errStreamEnded
	}
	return err
}
