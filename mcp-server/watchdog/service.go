package watchdog

import (
	"context"
	"errors"
	"log/slog"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/internal/kit/stamp"
	"github.com/pgmesh/pgmesh/mcp-server/failure"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	"github.com/pgmesh/pgmesh/store"
)

// Service is the API for administrators.
type Service struct {
	adminv1.UnimplementedBlockerServiceServer

	source Source
	log    *slog.Logger
}

// NewService returns the API of a source.
func NewService(s Source, log *slog.Logger) *Service { return &Service{source: s, log: log} }

// Register adds the API to a server.
func (s *Service) Register(r grpc.ServiceRegistrar) { adminv1.RegisterBlockerServiceServer(r, s) }

// ListBlockers lists the sessions that keep others waiting.
func (s *Service) ListBlockers(ctx context.Context, _ *adminv1.ListBlockersRequest) (*adminv1.ListBlockersResponse, error) {
	list, err := s.source.Blockers(ctx)
	if err != nil {
		return nil, s.fail(err)
	}
	usage, err := s.source.QueueUsage(ctx)
	if err != nil {
		return nil, s.fail(err)
	}
	resp := &adminv1.ListBlockersResponse{QueueUsage: usage}
	for _, b := range list {
		resp.Blockers = append(resp.Blockers, &adminv1.Blocker{
			Pid: b.PID, Reason: b.Reason, Role: b.Role, Database: b.Database, Application: b.Application, Client: b.Client, State: b.State,
			Since: stamp.Of(b.Since), WaitingSince: stamp.Of(b.WaitingSince), Blocks: b.Blocks, Query: b.Query, Server: b.Server,
		})
	}
	return resp, nil
}

// EndBlocker ends a session.
func (s *Service) EndBlocker(ctx context.Context, req *adminv1.EndBlockerRequest) (*adminv1.EndBlockerResponse, error) {
	who := caller.From(ctx)
	if err := s.source.EndBlocker(ctx, req.GetPid(), ""); err != nil {
		return nil, s.fail(err)
	}
	s.log.Info("ended a session that kept the mesh waiting", "pid", req.GetPid(), "by", who.Identity())
	return &adminv1.EndBlockerResponse{}, nil
}

func (s *Service) fail(err error) error {
	var invalid *store.InvalidError
	var refused *store.RefusedError
	switch {
	case errors.As(err, &invalid):
		return status.Error(codes.NotFound, invalid.Error())
	case errors.As(err, &refused):
		return status.Error(codes.FailedPrecondition, refused.Error())
	}
	return failure.Status(s.log, "sessions that others wait for", err)
}
