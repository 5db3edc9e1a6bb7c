// Package members is the API that administers membership of the mesh: join tokens, machines, their
// certificates and services, revocations, and trust. It changes the database;
// mcp-server/identity/authority and the discoveries act on that.
package members

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	signing "github.com/pgmesh/pgmesh/identity/authority"
	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/mcp-server/failure"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/identity/members"
	"github.com/pgmesh/pgmesh/store/identity/trust"
	"github.com/pgmesh/pgmesh/store/machines"
)

// Authority is what this API needs of the mesh's certificate authority.
type Authority interface {
	// Roots returns the mesh's own roots; none while they are unknown.
	Roots() []*x509.Certificate
	// Rotate creates the authority that is to sign next, in the name of by, and returns its id.
	Rotate(ctx context.Context, by string) (int64, error)
	// InForce waits until all servers know what was committed before the call. It returns those
	// that do not when the context ends.
	InForce(ctx context.Context) (pending []string)
}

// Service is the API.
type Service struct {
	adminv1.UnimplementedJoinTokenServiceServer
	adminv1.UnimplementedMemberServiceServer
	adminv1.UnimplementedTrustAdminServiceServer
	adminv1.UnimplementedRegisteredMachineServiceServer

	joined    *members.Store
	trust     *trust.Store
	machines  *machines.Store
	authority Authority // nil for none
	log       *slog.Logger
}

// New returns the API. Without an authority it uses only those in the database, and cannot create
// one.
func New(s *store.Store, a Authority, log *slog.Logger) *Service {
	return &Service{joined: members.New(s), trust: trust.New(s), machines: machines.New(s), authority: a, log: log}
}

// Register adds the API to a server.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	adminv1.RegisterJoinTokenServiceServer(r, s)
	adminv1.RegisterMemberServiceServer(r, s)
	adminv1.RegisterTrustAdminServiceServer(r, s)
	adminv1.RegisterRegisteredMachineServiceServer(r, s)
}

// roots returns the mesh's own roots. It reads the database, because this server may not know the
// newest yet, and falls back to the roots in this server's files.
func (s *Service) roots(ctx context.Context) ([]*x509.Certificate, error) {
	now, err := s.trust.Trust(ctx)
	if err != nil {
		return nil, err
	}
	var stored, own []*x509.Certificate
	for _, a := range now.Roots {
		chain, err := signing.ParseCertificates(a.Chain)
		if err != nil {
			return nil, fmt.Errorf("authority %d: %w", a.ID, err)
		}
		stored = append(stored, chain[0])
	}
	if s.authority != nil {
		own = s.authority.Roots()
	}
	ofDatabase := func(root *x509.Certificate) bool { return slices.ContainsFunc(stored, root.Equal) }
	switch {
	case len(own) > 0 && !slices.ContainsFunc(own, ofDatabase):
		return own, nil
	case len(stored) == 0:
		return nil, errNoAuthority
	}
	return stored, nil
}

var errNoAuthority = status.Error(codes.FailedPrecondition,
	"the mesh has no authority that a join token could be bound to: run mcp-server with --secrets-key-file and without --insecure, which makes one")

// fail turns an error into the status that the caller gets.
func (s *Service) fail(err error) error {
	var invalid *store.InvalidError
	var refused *store.RefusedError
	var denied *caller.DeniedError
	var blocked *store.BlockedError
	_, known := status.FromError(err)
	switch {
	case known:
		return err
	case errors.As(err, &denied):
		return caller.StatusOf(err)
	case errors.As(err, &invalid):
		return status.Error(codes.InvalidArgument, err.Error())
	case errors.As(err, &refused):
		return status.Error(codes.FailedPrecondition, err.Error())
	case errors.Is(err, members.ErrTokenExists):
		return status.Error(codes.AlreadyExists, err.Error())
	case errors.As(err, &blocked):
		return status.Error(codes.Aborted, err.Error())
	}
	return failure.Status(s.log, "who belongs to the mesh", err)
}
