package admin

import (
	"context"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/internal/kit/stamp"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// Status tells how the server fares. It answers while the database is away.
func (s *Service) Status(ctx context.Context, _ *adminv1.StatusRequest) (*adminv1.StatusResponse, error) {
	answer := &adminv1.StatusResponse{Server: s.serverStatus(), Source: s.sourceStatus()}
	if caller.From(ctx).Unlimited(caller.Read) {
		s.addOthers(answer)
	}
	ctx, cancel := context.WithTimeout(ctx, overviewWithin)
	defer cancel()
	mesh, err := s.mesh(ctx)
	if err != nil && !away(err) {
		return nil, s.fail(ctx, err)
	}
	answer.Mesh = mesh
	return answer, nil
}

// addOthers tells of whom the server serves. What is known here is told, for the database may be
// away.
func (s *Service) addOthers(answer *adminv1.StatusResponse) {
	if s.clients != nil {
		answer.Clients = s.clients()
	}
	if s.sinks != nil {
		answer.Sinks = s.sinks()
	}
}

// overviewWithin is how long the database may take to count: who asks for the status may do so
// because it is slow.
const overviewWithin = 5 * time.Second

func (s *Service) serverStatus() *adminv1.ServerStatus {
	told := &adminv1.ServerStatus{Version: s.version, Started: stamp.Of(s.started), Now: timestamppb.Now(), Ready: true}
	if _, err := s.ready(); err != nil {
		told.Ready, told.Missing = false, "the first snapshot is not loaded; /readyz says why"
	}
	news := s.news()
	defer news.Close()
	if snap := news.Snapshot(); snap != nil {
		told.Revision, _ = strconv.ParseInt(snap.Revision, 10, 64) // another server's may be no number
	}
	return told
}

func (s *Service) sourceStatus() *adminv1.SourceStatus {
	from, now := s.source(), s.linked()
	return &adminv1.SourceStatus{
		Name: from.Name, StaleSince: stamp.Of(from.Stale), Saved: from.Saved,
		Connected: now.Connected, Since: stamp.Of(now.Since), Losses: now.Losses, Standby: now.Standby,
	}
}

func (s *Service) linked() Link {
	if s.link != nil {
		return s.link()
	}
	now := s.feed.Status()
	return Link{Connected: now.Connected, Since: now.Since, Losses: now.Losses, Standby: now.Standby}
}

func (s *Service) mesh(ctx context.Context) (*adminv1.MeshStatus, error) {
	if s.feed == nil || s.opened != nil && !s.opened() {
		return nil, nil
	}
	o, err := s.resources.Overview(ctx)
	if err != nil {
		return nil, err
	}
	told := &adminv1.MeshStatus{
		NewestRevision: o.Newest, NewestTime: stamp.Of(o.NewestTime), OldestRevision: o.Oldest, WaitingConfirmations: int32(o.Waiting),
	}
	for _, k := range o.Kinds {
		told.Kinds = append(told.Kinds, &adminv1.KindCount{Group: k.Group, Kind: k.Kind, Resources: k.Resources})
	}
	return told, nil
}
