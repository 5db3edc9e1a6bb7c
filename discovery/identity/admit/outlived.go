package admit

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/discovery/identity/trust"
)

// outlived counts streams that stayed open until the certificate that opened them expired. That is
// no refusal: it happens to every proxy once for each certificate. By then it has the next one, and
// reconnects with that.
type outlived struct {
	log   *slog.Logger
	count prometheus.Counter
}

func newOutlived(log *slog.Logger, metrics prometheus.Registerer) outlived {
	o := outlived{log, prometheus.NewCounter(prometheus.CounterOpts{
		Name: "pgmesh_discovery_streams_renewed_total",
		Help: "Streams that ended with the certificate that they were opened with, for their clients to come back with the next.",
	})}
	metrics.MustRegister(o.count)
	return o
}

// tell counts and logs such a stream, and returns the error that ends it.
func (o *outlived) tell(ctx context.Context, m *trust.Member) error {
	o.count.Inc()
	about := []any{"identity", m.ID.String(), "enrolment", m.Enrolment}
	if p, ok := peer.FromContext(ctx); ok {
		about = append(about, "address", p.Addr.String())
	}
	o.log.Info("a stream has ended with its certificate, to be opened with the next", about...)
	return endedWith(m)
}

func endedWith(m *trust.Member) error {
	return status.Error(codes.Unauthenticated, "the certificate for "+m.ID.String()+" that the stream was opened with has expired: open another with the one after it")
}

// farewell is how long a connection outlives its certificate, so that its streams learn why they
// end.
const farewell = 200 * time.Millisecond

// closing is a connection that closes at a set time. Otherwise clients would open more streams on
// it, and never show their next certificate.
type closing struct {
	net.Conn

	at *time.Timer
}

func closedAt(conn net.Conn, at time.Time) net.Conn {
	return &closing{conn, time.AfterFunc(time.Until(at), func() { _ = conn.Close() })} // the next read fails, which tells its user
}

// Close ends the connection.
func (c *closing) Close() error {
	c.at.Stop()
	return c.Conn.Close()
}
