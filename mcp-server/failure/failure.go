// Package failure turns errors that are not the caller's fault into gRPC statuses.
package failure

import (
	"context"
	"errors"
	"log/slog"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/store"
)

// Status returns Unavailable if the database cannot be reached. Otherwise the server is at fault:
// Status logs the error, with the work that failed, and returns Internal.
func Status(log *slog.Logger, work string, err error) error {
	if store.Temporary(err) || errors.Is(err, context.DeadlineExceeded) {
		return status.Error(codes.Unavailable, "the server cannot reach its database: run it again later")
	}
	log.Error("cannot work on "+work, "error", err)
	return status.Error(codes.Internal, err.Error())
}
