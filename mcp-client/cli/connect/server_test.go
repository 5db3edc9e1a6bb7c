package connect_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/mcp-client/cli/connect"
)

// A server that answers, and is without its database, is not one that cannot be reached.
func TestAServerWithoutItsDatabaseIsNamedAsSuch(t *testing.T) {
	t.Parallel()
	s := &connect.Server{Address: "mesh.example:15020"}
	away, err := status.New(codes.Unavailable, "the server cannot reach its database: run it again later").WithDetails(&errdetails.ErrorInfo{Reason: "DATABASE_UNAVAILABLE", Domain: "pgmesh.io"})
	require.NoError(t, err)
	require.EqualError(t, s.Explain(away.Err()),
		"the server at mesh.example:15020 answers: the server cannot reach its database: run it again later")
	require.ErrorContains(t, s.Explain(status.Error(codes.Unavailable, "connection refused")), "cannot reach the server at mesh.example:15020")
}
