package admin

import (
	"context"

	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/internal/kit/stamp"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/history"
	"github.com/pgmesh/pgmesh/store/resources"
)

// Restore sets resources back to an earlier state.
func (s *Service) Restore(ctx context.Context, req *adminv1.RestoreRequest) (*adminv1.RestoreResponse, error) {
	var f fields
	change := f.origin(ctx, req).change(req.GetDryRun())
	change.Confirm = f.confirm(req.GetConfirmWithin())
	restoring := history.Restoring{Apply: change, Selection: f.selection(req), To: f.target(req)}
	if restoring.To.IsNow() {
		f.addf("to", "say to which revision or time: revision or time")
	}
	if err := f.err(); err != nil {
		return nil, err
	}
	if err := narrow(ctx, caller.Write, &restoring.Selection); err != nil {
		return nil, err
	}
	var done resources.Called
	err := s.retryConflicts(ctx, func() (resources.Applied, error) {
		var err error
		done, err = s.history.Restore(ctx, restoring)
		return done.Applied, err
	})
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	return &adminv1.RestoreResponse{
		Revision: done.Revision, Outcomes: outcomes(done.Keys, done.Outcomes),
		Warnings: problemsOf(done.Warnings), OmittedWarnings: int32(done.Omitted), ConfirmBy: stamp.Of(done.Deadline),
	}, nil
}

func (f *fields) target(req *adminv1.RestoreRequest) store.Moment {
	if v, given := req.GetTo().(*adminv1.RestoreRequest_Revision); given {
		return f.moment("", &v.Revision, nil)
	}
	return f.moment("", nil, req.GetTime())
}

// Revert takes back the changes of one revision.
func (s *Service) Revert(ctx context.Context, req *adminv1.RevertRequest) (*adminv1.RevertResponse, error) {
	var f fields
	change, revision := f.origin(ctx, req).change(req.GetDryRun()), f.revision(req.GetRevision())
	if err := f.err(); err != nil {
		return nil, err
	}
	if err := s.requireRevision(ctx, revision); err != nil {
		return nil, err
	}
	var applied resources.Applied
	var became []history.RevertOutcome
	err := s.retryConflicts(ctx, func() (resources.Applied, error) {
		var err error
		applied, became, err = s.history.Revert(ctx, revision, req.GetWhole(), change)
		return applied, err
	})
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	answer := &adminv1.RevertResponse{
		Revision: applied.Revision, Warnings: problemsOf(applied.Warnings), OmittedWarnings: int32(applied.Omitted),
	}
	for _, b := range became {
		answer.Resources = append(answer.Resources, &adminv1.Reverted{Resource: refTo(b.Key), Outcome: b.Outcome, ChangedBy: b.ChangedBy})
	}
	return answer, nil
}
