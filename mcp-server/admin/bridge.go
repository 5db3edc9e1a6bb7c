package admin

import (
	"context"

	"google.golang.org/grpc"

	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/kinds"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// statusOnly answers Status and no other call, for a server without a database.
type statusOnly struct {
	adminv1.UnimplementedAdminServiceServer

	service *Service
}

// RegisterStatus registers the Status call alone.
func (s *Service) RegisterStatus(r grpc.ServiceRegistrar) {
	adminv1.RegisterAdminServiceServer(r, statusOnly{service: s})
}

// Status answers as the whole API does.
func (s statusOnly) Status(ctx context.Context, req *adminv1.StatusRequest) (*adminv1.StatusResponse, error) {
	return s.service.Status(ctx, req)
}

// bridge answers Get and List, too, for a server that serves what registries have and nothing else.
type bridge struct{ statusOnly }

// BridgeMethods are the methods that a server with nothing but registries answers.
var BridgeMethods = []string{adminv1.AdminService_Status_FullMethodName, adminv1.AdminService_Get_FullMethodName, adminv1.AdminService_List_FullMethodName}

// RegisterBridge registers the BridgeMethods.
func (s *Service) RegisterBridge(r grpc.ServiceRegistrar) {
	adminv1.RegisterAdminServiceServer(r, bridge{statusOnly{service: s}})
}

// Get reads one resource of a registry.
func (b bridge) Get(ctx context.Context, req *adminv1.GetRequest) (*adminv1.GetResponse, error) {
	var f fields
	key := f.resource(req.GetResource())
	f.present(req)
	if err := f.err(); err != nil {
		return nil, err
	}
	if err := require(ctx, caller.Read, key); err != nil {
		return nil, err
	}
	found, err := b.service.getJoined(key)
	if err != nil {
		return nil, b.service.fail(ctx, err)
	}
	if found == nil {
		return nil, b.service.notFound(ctx, []kinds.Key{key}, nil, "")
	}
	return &adminv1.GetResponse{Resource: found}, nil
}

// List reads a page of resources of registries.
func (b bridge) List(ctx context.Context, req *adminv1.ListRequest) (*adminv1.ListResponse, error) {
	var f fields
	f.present(req)
	if req.GetWhere() != "" {
		f.addf("where", "is evaluated by a database, which this server has not: ask for kinds, namespaces, names or labels")
	}
	q, _, err := f.query(ctx, req)
	if err != nil {
		return nil, err
	}
	answer := &adminv1.ListResponse{}
	return answer, b.service.failed(ctx, b.service.addJoined(ctx, req, q, answer))
}

// present refuses a request for a past state.
func (f *fields) present(req any) {
	if at := f.asOf(req); !at.IsNow() {
		f.addf("as_of", "is of a history, which a server without a database has not: leave it out")
	}
}
