package legacy

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"time"

	"github.com/cenkalti/backoff/v5"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"

	"github.com/pgmesh/pgmesh/internal/panics"
	"github.com/pgmesh/pgmesh/internal/program"
	legacyv1 "github.com/pgmesh/pgmesh/proto/istio/mcp/v1alpha1"
)

// Sink is a server that wants to be dialled.
type Sink struct {
	Address    string
	Metadata   map[string]string // headers
	TLS        *bool             // nil: as the flags say
	ServerName string            // in its certificate, if it is not that of the address
	ServerID   string            // its SPIFFE id
}

func (s Sink) equal(o Sink) bool {
	same := (s.TLS == nil) == (o.TLS == nil) && (s.TLS == nil || *s.TLS == *o.TLS)
	return same && s.Address == o.Address && s.ServerName == o.ServerName && s.ServerID == o.ServerID && maps.Equal(s.Metadata, o.Metadata)
}

const (
	// Galley tries again after a second, and so on. A sink that is away for long is tried less often.
	redialFirst = 500 * time.Millisecond
	redialMost  = 30 * time.Second
	// A stream that has lasted so long was one, and what ends it is news.
	lasting = 10 * time.Second
)

// caller keeps a stream to one sink.
type caller struct {
	source *Source
	sink   Sink
	log    *slog.Logger
	report *sinkReport
}

// run dials until the context ends.
func (c *caller) run(ctx context.Context) {
	retry := &backoff.ExponentialBackOff{InitialInterval: redialFirst, MaxInterval: redialMost, Multiplier: 1.6, RandomizationFactor: 0.5}
	connected := c.source.metrics.connected.WithLabelValues(c.sink.Address)
	failures := c.source.metrics.failures.WithLabelValues(c.sink.Address)
	connected.Set(0)
	for said := ""; ; {
		began := time.Now()
		err := panics.Try("sink", func() error {
			return c.call(ctx, func() {
				connected.Set(1)
				c.report.connected()
			})
		})
		connected.Set(0)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > lasting {
			retry.Reset()
			said = ""
		}
		failures.Inc()
		c.report.failed(err)
		if err.Error() != said { // the same failure over and over is said once
			said = err.Error()
			c.log.Warn("cannot serve a sink; it keeps what it has, and the server goes on trying", "error", err)
		}
		select {
		case <-time.After(retry.NextBackOff()):
		case <-ctx.Done():
			return
		}
	}
}

var errHungUp = errors.New("the sink has ended the stream")

// call serves the sink over one stream. Heard is called when the sink says something.
func (c *caller) call(ctx context.Context, heard func()) error {
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
	// A server may not see the stream before something is said on it.
	if err := stream.Send(&legacyv1.Resources{Collection: legacyv1.TriggerCollection}); err != nil {
		return err
	}
	view := c.source.cfg.Everything()
	defer view.Close()
	w := exchange{stream, c.source.reader(ctx), heard}
	requests, failed := receive(ctx, w)
	err = c.source.stream(ctx, "ResourceSink", c.sink.Address, w, view, requests, failed)
	hangUp()
	for range failed { // until the receiver has ended
	}
	if err == nil {
		return errHungUp
	}
	return err
}
