package authority

import (
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/identity"
	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/internal/kit/stamp"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

// staleCheckInterval is how often a stream checks whether its trust has become stale.
const staleCheckInterval = time.Second

// WatchTrust streams the mesh's trust, now and after each change, and since when it is stale.
func (s *Service) WatchTrust(_ *identityv1.WatchTrustRequest, stream grpc.ServerStreamingServer[identityv1.WatchTrustResponse]) error {
	who := caller.From(stream.Context())
	var told *identityv1.Trust
	select {
	case <-s.ready:
	case <-time.After(certificateTimeout):
		return status.Error(codes.Unavailable, "this server does not know yet what the mesh trusts: come again")
	case <-s.stopping:
	case <-stream.Context().Done():
	}
	hears := &watchStream{who.Identity()}
	defer s.streams.gone(hears)
	look := time.NewTicker(staleCheckInterval)
	defer look.Stop()
	var stale time.Time
	for {
		state := s.Current()
		if state == nil {
			return status.Error(codes.Unavailable, "the server is shutting down")
		}
		trust := state.trustFor(who)
		decides := trust == state.trust // it gets the whole trust, and enforces revocations
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
			s.streams.sent(hears, state)
		}
		select {
		case <-state.replaced:
		case <-look.C:
		case <-s.stopping:
			return status.Error(codes.Unavailable, "the server is shutting down")
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// trustFor returns the trust that a caller is sent: revocations and the issuers of tokens are only
// for servers.
func (s *State) trustFor(who *caller.Caller) *identityv1.Trust {
	id, err := spiffeid.FromString(who.Identity())
	if err == nil {
		_, isServer := identity.ServerOf(id)
		if isServer && s.ours(id) { // the guard has verified its certificate
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
