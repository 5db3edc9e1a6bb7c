package rpc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// recorded is a connection of which is kept what has come.
type recorded struct {
	net.Conn

	mu   *sync.Mutex
	came *bytes.Buffer
}

func (r recorded) Read(b []byte) (int, error) {
	n, err := r.Conn.Read(b)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.came.Write(b[:n])
	return n, err //nolint:wrapcheck // it is the connection's
}

// A client that says something now and then is not pinged for it, to find out how large the windows
// should be.
func TestMessagesThatComeAloneCauseNoPings(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := NewServer()
	healthpb.RegisterHealthServer(s, health.NewServer())
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	var mu sync.Mutex
	var came bytes.Buffer
	conn, err := grpc.NewClient("passthrough:///"+l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStaticStreamWindowSize(1<<20), grpc.WithStaticConnWindowSize(1<<20),
		grpc.WithContextDialer(func(ctx context.Context, to string) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, "tcp", to)
			return recorded{c, &mu, &came}, err
		}))
	require.NoError(t, err)
	for range 3 {
		_, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
		require.NoError(t, err)
	}
	require.NoError(t, conn.Close())
	s.Stop()
	require.NoError(t, <-served)
	mu.Lock()
	defer mu.Unlock()
	require.Positive(t, came.Len())
	require.NotContains(t, framesOf(t, came.Bytes()), http2.FramePing)
}

// framesOf are the sorts of frames in what has come, of which the last may not have come whole.
func framesOf(t *testing.T, came []byte) (sorts []http2.FrameType) {
	t.Helper()
	framer := http2.NewFramer(io.Discard, bytes.NewReader(came))
	for {
		f, err := framer.ReadFrame()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return sorts
		}
		require.NoError(t, err)
		sorts = append(sorts, f.Header().Type)
	}
}
