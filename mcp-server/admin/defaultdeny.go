package admin

import (
	"context"

	"github.com/pgmesh/pgmesh/internal/kit/stamp"
	"github.com/pgmesh/pgmesh/kinds"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	"github.com/pgmesh/pgmesh/store/resources"
)

// GetDefaultDeny reports whether requests are denied unless a policy allows them.
func (s *Service) GetDefaultDeny(ctx context.Context, _ *adminv1.GetDefaultDenyRequest) (*adminv1.GetDefaultDenyResponse, error) {
	d, err := s.defaultDeny.Read(ctx)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	resp := &adminv1.GetDefaultDenyResponse{Enabled: d.Enabled, Policy: refIf(d.Policy), MutualTls: d.MutualTLS, PeerAuthentication: refIf(d.PeerAuthentication)}
	for _, e := range d.Exceptions {
		resp.Exceptions = append(resp.Exceptions, &adminv1.DefaultDenyException{Resource: refTo(e.Key), Reason: e.Reason})
	}
	return resp, nil
}

func refIf(k *kinds.Key) *adminv1.ResourceRef {
	if k == nil {
		return nil
	}
	return refTo(*k)
}

// SetDefaultDeny turns default deny on or off.
func (s *Service) SetDefaultDeny(ctx context.Context, req *adminv1.SetDefaultDenyRequest) (*adminv1.SetDefaultDenyResponse, error) {
	var f fields
	change := f.origin(ctx, req).change(req.GetDryRun())
	change.Confirm = f.confirm(req.GetConfirmWithin())
	if err := f.err(); err != nil {
		return nil, err
	}
	var done resources.Called
	err := s.retryConflicts(ctx, func() (resources.Applied, error) {
		var err error
		done, err = s.defaultDeny.Set(ctx, req.GetEnabled(), change)
		return done.Applied, err
	})
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	return &adminv1.SetDefaultDenyResponse{
		Revision: done.Revision, Outcomes: outcomes(done.Keys, done.Outcomes),
		Warnings: problemsOf(done.Warnings), OmittedWarnings: int32(done.Omitted), ConfirmBy: stamp.Of(done.Deadline),
	}, nil
}
