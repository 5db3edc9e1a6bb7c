package reason_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/kit/reason"
)

// People read why a server is away, and gRPC's wrapping tells them nothing.
func TestPlainSaysWhy(t *testing.T) {
	t.Parallel()
	unavailable := func(message string) error { return status.Error(codes.Unavailable, message) }
	for want, err := range map[string]error{
		"connection refused":              unavailable(`connection error: desc = "transport: Error while dialing: dial tcp 127.0.0.1:25030: connect: connection refused"`),
		"it does not speak TLS":           unavailable(`connection error: desc = "transport: authentication handshake failed: tls: first record does not look like a TLS handshake"`),
		"error reading from server: EOF":  unavailable("error reading from server: EOF"),
		"no such token (Unauthenticated)": fmt.Errorf("follow: %w", status.Error(codes.Unauthenticated, "no such token")),
		"the server serves another mesh":  errors.New("the server serves another mesh"),
		"EOF":                             io.EOF,
		"lookup nowhere: no such host":    unavailable(`connection error: desc = "transport: Error while dialing: dial tcp: lookup nowhere: no such host"`),
	} {
		plain := reason.Plain(err)
		require.EqualError(t, plain, want)
		require.ErrorIs(t, plain, err)
	}
}
