package trust

import (
	"google.golang.org/grpc"

	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

// Service tells machines what the mesh trusts. It does not tell them who was revoked, or with whose
// tokens others join.
type Service struct {
	identityv1.UnimplementedTrustServiceServer

	keeper *Keeper
	done   chan struct{}
}

// NewService returns a service for what the keeper knows.
func NewService(k *Keeper) *Service { return &Service{keeper: k, done: make(chan struct{})} }

// Register adds the service to a gRPC server.
func (t *Service) Register(r grpc.ServiceRegistrar) { identityv1.RegisterTrustServiceServer(r, t) }

// Shutdown ends the streams. It must be called once.
func (t *Service) Shutdown() { close(t.done) }

// WatchTrust sends what is trusted, whenever that changes.
func (t *Service) WatchTrust(_ *identityv1.WatchTrustRequest, stream identityv1.TrustService_WatchTrustServer) error {
	var before *State
	for {
		state, changed := t.keeper.Watch()
		if state != nil && !state.tellsMachines(before) {
			if err := stream.Send(&identityv1.WatchTrustResponse{Trust: state.forMachines()}); err != nil {
				return err
			}
			before = state
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return stream.Context().Err()
		case <-t.done:
			return nil
		}
	}
}
