package trust

import (
	"google.golang.org/grpc"

	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

// Teller tells machines what the mesh trusts, and nothing of who was revoked, or by whose tokens others join.
type Teller struct {
	identityv1.UnimplementedTrustServiceServer

	keeper *Keeper
	done   chan struct{}
}

// NewTeller returns a service.
func NewTeller(k *Keeper) *Teller { return &Teller{keeper: k, done: make(chan struct{})} }

// Register adds the service to a gRPC server.
func (t *Teller) Register(r grpc.ServiceRegistrar) { identityv1.RegisterTrustServiceServer(r, t) }

// Shutdown ends the streams. It must be called once.
func (t *Teller) Shutdown() { close(t.done) }

// WatchTrust tells what is trusted, whenever that changes.
func (t *Teller) WatchTrust(_ *identityv1.WatchTrustRequest, stream identityv1.TrustService_WatchTrustServer) error {
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
