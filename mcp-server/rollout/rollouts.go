package rollout

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/internal/kit/stamp"
	"github.com/pgmesh/pgmesh/mcp-server/failure"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	"github.com/pgmesh/pgmesh/store/rollout"
)

const (
	// usualRollouts and maxRolloutsListed are how many are listed if a request does not say, and may
	// be.
	usualRollouts     = 20
	maxRolloutsListed = 1000
)

// ListRollouts lists how far the latest revisions have come, or one.
func (s *Service) ListRollouts(ctx context.Context, req *adminv1.ListRolloutsRequest) (*adminv1.ListRolloutsResponse, error) {
	namespaces, err := caller.From(ctx).Readable(req.GetNamespaces(), "see the proxies")
	if err != nil {
		return nil, caller.StatusOf(err)
	}
	limit, err := limitOf(req.GetLimit(), usualRollouts)
	if err != nil {
		return nil, err
	}
	if req.GetRevision() < 0 {
		return nil, status.Error(codes.InvalidArgument, "revision: must not be negative")
	}
	list, err := s.progress(ctx, namespaces, req.GetRevision(), limit)
	if err != nil {
		return nil, failure.Status(s.log, "how far revisions have come", err)
	}
	if len(list) == 0 && req.GetRevision() > 0 {
		if err := s.known(ctx, req.GetRevision()); err != nil {
			return nil, err
		}
	}
	resp := &adminv1.ListRolloutsResponse{}
	for _, p := range list {
		resp.Rollouts = append(resp.Rollouts, rolloutOf(p))
	}
	return resp, nil
}

// progress reads one revision, or the latest.
func (s *Service) progress(ctx context.Context, namespaces []string, revision int64, limit int) ([]rollout.Progress, error) {
	if revision > 0 {
		return s.store.Of(ctx, namespaces, revision)
	}
	return s.store.Latest(ctx, namespaces, 0, limit)
}

// known refuses a revision that does not exist yet. An older one may be forgotten, which is no
// error.
func (s *Service) known(ctx context.Context, revision int64) error {
	newest, err := s.store.Newest(ctx)
	switch {
	case err != nil:
		return failure.Status(s.log, "which revision is the newest", err)
	case revision > newest:
		return notYet(revision, newest)
	}
	return nil
}

func notYet(revision, newest int64) error {
	return status.Errorf(codes.OutOfRange, "there is no revision %d yet: the newest is %d", revision, newest)
}

func limitOf(asked int32, usual int) (int, error) {
	switch {
	case asked < 0 || asked > maxRolloutsListed:
		return 0, status.Errorf(codes.InvalidArgument, "limit: %d is no number of rollouts to list: give one up to %d", asked, maxRolloutsListed)
	case asked == 0:
		return usual, nil
	}
	return int(asked), nil
}

func rolloutOf(p rollout.Progress) *adminv1.Rollout {
	of := &adminv1.Rollout{
		Revision: p.Revision, CommittedAt: stamp.Of(p.Committed), Author: p.Author,
		Concerned: p.Concerned, Ran: p.Ran, Refused: p.Refused, ToAnswer: p.ToAnswer, Away: p.Away,
		FirstAt: stamp.Of(p.First), HalfAt: stamp.Of(p.Half), LastAt: stamp.Of(p.Last),
	}
	for _, part := range p.Parts {
		of.Parts = append(of.Parts, &adminv1.Rollout_Part{
			Discovery: part.Discovery, Namespace: part.Namespace,
			Concerned: part.Concerned, Ran: part.Ran, Refused: part.Refused, ToAnswer: part.ToAnswer, Away: part.Away,
			FirstAt: stamp.Of(part.First), HalfAt: stamp.Of(part.Half), LastAt: stamp.Of(part.Last),
		})
	}
	return of
}
