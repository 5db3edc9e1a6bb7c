package members

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/internal/kit/stamp"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/machines"
)

// ListRegisteredMachines lists registered machines and their services.
func (s *Service) ListRegisteredMachines(ctx context.Context, req *adminv1.ListRegisteredMachinesRequest) (*adminv1.ListRegisteredMachinesResponse, error) {
	namespaces, err := caller.From(ctx).Readable(req.GetNamespaces(), "see the machines")
	if err != nil {
		return nil, s.fail(err)
	}
	rows, err := s.machines.Registered(ctx, machines.Filter{Namespaces: namespaces, Machine: req.GetMachine(), Group: req.GetGroup()})
	if err != nil {
		return nil, s.fail(err)
	}
	resp := &adminv1.ListRegisteredMachinesResponse{}
	for _, m := range rows {
		resp.Machines = append(resp.Machines, &adminv1.RegisteredMachine{
			Namespace: m.Namespace, Machine: m.Machine, Group: m.Group, State: m.State, Entry: m.Entry, Refused: m.Refused,
			Address: m.Address, Network: m.Network, Locality: m.Locality, Health: m.Health, Detail: m.Detail, ServiceAccount: m.ServiceAccount, Enrolment: m.Enrolment,
			Labels: m.Labels, Ports: m.Ports, Weight: m.Weight, Discovery: m.Discovery, Server: m.Server,
			Since: stamp.Of(m.Since), RegisteredAt: stamp.Of(m.Registered), GoneAt: stamp.Of(m.Gone),
		})
	}
	return resp, nil
}

// RemoveRegisteredMachine removes a machine's registrations.
func (s *Service) RemoveRegisteredMachine(ctx context.Context, req *adminv1.RemoveRegisteredMachineRequest) (*adminv1.RemoveRegisteredMachineResponse, error) {
	who := caller.From(ctx)
	if err := who.RequireWithin(caller.Write, req.GetNamespace(), "take out machines"); err != nil {
		return nil, s.fail(err)
	}
	removed, err := s.machines.Remove(ctx, req.GetNamespace(), req.GetMachine(), req.GetGroup(), req.GetForce(), who.Author())
	switch {
	case errors.Is(err, machines.ErrConnected):
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	case errors.Is(err, store.ErrNotFound):
		return nil, status.Error(codes.NotFound, err.Error())
	case err != nil:
		return nil, s.fail(err)
	}
	s.log.Info("took out a machine", "namespace", req.GetNamespace(), "machine", req.GetMachine(), "services", removed, "by", who.Identity())
	return &adminv1.RemoveRegisteredMachineResponse{Removed: removed}, nil
}
