// Package failure turns errors that are not the caller's fault into gRPC statuses.
package failure

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/store"
)

// NoDatabase says that the server is without its database, so that a client can tell it from a server
// that cannot be reached. The message names no host and no user, as an error of the database might.
func NoDatabase(message string) error {
	st, err := status.New(codes.Unavailable, message).WithDetails(&errdetails.ErrorInfo{Reason: "DATABASE_UNAVAILABLE", Domain: "pgmesh.io"})
	if err != nil {
		panic(fmt.Sprintf("a status of messages that are linked in: %v", err))
	}
	return st.Err()
}

// Status returns Unavailable if the database cannot be reached. Otherwise the server is at fault:
// Status logs the error, with the work that failed, and returns Internal.
func Status(log *slog.Logger, work string, err error) error {
	if store.Temporary(err) || errors.Is(err, context.DeadlineExceeded) {
		return NoDatabase("the server cannot reach its database: run it again later")
	}
	log.Error("cannot work on "+work, "error", err)
	return status.Error(codes.Internal, err.Error())
}
