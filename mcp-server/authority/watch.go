package authority

import (
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/internal/identity"
	"github.com/pgmesh/pgmesh/internal/stamp"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

// staleLook is how often it is looked whether what is told has become stale.
const staleLook = time.Second

// WatchTrust tells what the mesh trusts, now and whenever that changes, and whether somebody else may know better.
func (s *Service) WatchTrust(_ *identityv1.WatchTrustRequest, stream grpc.ServerStreamingServer[identityv1.WatchTrustResponse]) error {
	who := caller.From(stream.Context())
	var told *identityv1.Trust
	select {
	case <-s.ready:
	case <-time.After(patience):
		return status.Error(codes.Unavailable, "this server does not know yet what the mesh trusts: come again")
	case <-s.stopping:
	case <-stream.Context().Done():
	}
	hears := &listener{who.Identity()}
	defer s.streams.gone(hears)
	look := time.NewTicker(staleLook)
	defer look.Stop()
	var stale time.Time
	for {
		known := s.Current()
		if known == nil {
			return status.Error(codes.Unavailable, "the server is shutting down")
		}
		trust := known.toldTo(who)
		decides := trust == known.trust // by who is revoked
		if decides && told == nil {
			s.streams.sent(hears, nil)
		}
		now := s.StaleSince()
		if told == nil || !proto.Equal(told, trust) || now.IsZero() != stale.IsZero() {
			told, stale = trust, now
			if err := stream.Send(&identityv1.WatchTrustResponse{Trust: trust, StaleSince: stamp.Of(stale)}); err != nil {
				return err
			}
		}
		if decides {
			s.streams.sent(hears, known)
		}
		select {
		case <-known.replaced:
		case <-look.C:
		case <-s.stopping:
			return status.Error(codes.Unavailable, "the server is shutting down")
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// toldTo is what somebody is told: whom the mesh does not trust any more, and whose tokens it takes, is the affair of servers.
func (s *State) toldTo(who *caller.Caller) *identityv1.Trust {
	id, err := spiffeid.FromString(who.Identity())
	if err == nil {
		_, is := identity.ServerOf(id)
		if is && s.ours(id) { // the guard has seen who vouches for it
			return s.trust
		}
	}
	if who.Unlimited(caller.Sign) {
		return s.trust
	}
	trust := proto.CloneOf(s.trust)
	trust.Revoked, trust.Issuers, trust.CertificateLifetimes, trust.OwnGateways = nil, nil, nil, false
	return trust
}
