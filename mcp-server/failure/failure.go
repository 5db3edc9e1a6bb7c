// Package failure answers calls that failed through no fault of their callers.
package failure

import (
	"context"
	"errors"
	"log/slog"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/store"
)

// Status says that the database is away, or else that the server is at fault; then its log says with what it was at work.
func Status(log *slog.Logger, work string, err error) error {
	if store.Temporary(err) || errors.Is(err, context.DeadlineExceeded) {
		return status.Error(codes.Unavailable, "the server cannot reach its database: run it again later")
	}
	log.Error("cannot work on "+work, "error", err)
	return status.Error(codes.Internal, err.Error())
}
