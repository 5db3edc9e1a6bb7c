// Package limits keeps one client from taking what the others need of a server: it limits the size
// of messages, the number of open streams, and the rate of calls. A client that exceeds a limit
// gets RESOURCE_EXHAUSTED, with the time when to come back.
package limits

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Options are the limits. Zero means no limit, except for the size of messages.
type Options struct {
	MessageMiB           int
	Streams              int
	StreamsPerConnection uint32
	Rate                 float64 // calls a second of a client
	Burst                int
}

// Flags declares the flags.
func (o *Options) Flags(f *pflag.FlagSet) {
	f.IntVar(&o.MessageMiB, "max-message-mib", 64, "the largest message that is taken, in MiB: an apply, or what a client that reconnects says it has")
	f.IntVar(&o.Streams, "max-streams", 20_000, "how many streams may be open at once, 0 for any number")
	f.Uint32Var(&o.StreamsPerConnection, "max-streams-per-connection", 1024, "how many calls one connection may have open at once; further ones wait")
	f.Float64Var(&o.Rate, "max-call-rate", 500, "how many calls and streams an address may begin a second, on average; 0 for any number")
	f.IntVar(&o.Burst, "max-call-burst", 2000, "how many it may begin at once: many clients come back together when a server has restarted")
}

// Limits applies the limits of a server to its clients.
type Limits struct {
	options  Options
	open     atomic.Int64
	rates    *rates
	exceeded *prometheus.CounterVec

	// Exempt reports which calls have no rate limit. Nil means none.
	Exempt func(context.Context) bool
}

// New returns the limits of one server.
func New(o Options, metrics prometheus.Registerer) *Limits {
	l := &Limits{
		options: o, rates: newRates(o.Rate, o.Burst),
		exceeded: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pgmesh_mcp_server_limits_exceeded_total", Help: "Calls that were turned away, by the limit that they went over: streams or rate.",
		}, []string{"limit"}),
	}
	metrics.MustRegister(l.exceeded)
	return l
}

// handshakeWithin bounds the time of a connection before its first request.
const handshakeWithin = 15 * time.Second

// ServerOptions apply the limits to a gRPC server. Put them before those that authenticate callers,
// which costs more.
func (l *Limits) ServerOptions() []grpc.ServerOption {
	options := []grpc.ServerOption{
		grpc.ConnectionTimeout(handshakeWithin), grpc.ChainUnaryInterceptor(l.unary), grpc.ChainStreamInterceptor(l.stream),
	}
	if l.options.MessageMiB > 0 {
		options = append(options, grpc.MaxRecvMsgSize(l.options.MessageMiB<<20))
	}
	if l.options.StreamsPerConnection > 0 {
		options = append(options, grpc.MaxConcurrentStreams(l.options.StreamsPerConnection))
	}
	return options
}

func (l *Limits) unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if l.Exempt == nil || !l.Exempt(ctx) {
		if s := l.slow(addressOf(ctx)); s != nil {
			return nil, s.Err()
		}
	}
	return handle(ctx, req)
}

func (l *Limits) stream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	if s := l.slow(addressOf(stream.Context())); s != nil {
		return s.Err()
	}
	defer l.open.Add(-1)
	if open := l.open.Add(1); l.options.Streams > 0 && open > int64(l.options.Streams) {
		return l.refuse("streams", time.Second, fmt.Sprintf("the server has as many streams open as it may have, %d (--max-streams)", l.options.Streams)).Err()
	}
	return handle(srv, stream)
}

// slow refuses a client that calls too fast.
func (l *Limits) slow(address string) *status.Status {
	wait := l.rates.take(neighbourhood(address))
	if wait <= 0 {
		return nil
	}
	return l.refuse("rate", wait, fmt.Sprintf("too many calls come from %s: at most %g a second, and %d at once (--max-call-rate, --max-call-burst)",
		address, l.options.Rate, l.options.Burst))
}

func (l *Limits) refuse(limit string, retry time.Duration, message string) *status.Status {
	l.exceeded.WithLabelValues(limit).Inc()
	s := status.New(codes.ResourceExhausted, message)
	if detailed, err := s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(retry)}); err == nil {
		return detailed
	}
	return s
}

// Handler applies the limits to HTTP requests.
func (l *Limits) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.RemoteAddr)
		if err != nil {
			host = r.RemoteAddr
		}
		if s := l.slow(host); s != nil {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			text, _ := protojson.Marshal(s.Proto())
			_, _ = w.Write(text) //nolint:gosec // it is JSON, and says so
			return
		}
		if l.options.MessageMiB > 0 {
			r.Body = http.MaxBytesReader(w, r.Body, int64(l.options.MessageMiB)<<20)
		}
		next.ServeHTTP(w, r)
	})
}

// Origin is the part of a caller's address that tells clients apart.
func Origin(ctx context.Context) string { return neighbourhood(addressOf(ctx)) }

func addressOf(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return ""
	}
	return hostOf(p.Addr)
}

func hostOf(a net.Addr) string {
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	return host
}
