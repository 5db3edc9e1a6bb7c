package admin

import (
	"context"

	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/internal/kit/stamp"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/feed"
	"github.com/pgmesh/pgmesh/store/history"
)

const (
	defaultHistoryPage = 50
	maxHistoryPage     = 1000
	// maxChangesOfEach bounds the changes listed of each revision on a page; maxChangesOfOne those
	// of a revision asked for by number.
	maxChangesOfEach = 100
	maxChangesOfOne  = 2000
)

// History lists revisions.
func (s *Service) History(ctx context.Context, req *adminv1.HistoryRequest) (*adminv1.HistoryResponse, error) {
	var f fields
	q := history.Query{
		Selection: f.selection(req), Author: f.text("author", req.GetAuthor(), maxAuthorBytes), Message: f.text("message", req.GetMessage(), maxFilterBytes),
		Since: f.time("since", req.GetSince()), Until: f.time("until", req.GetUntil()), Only: req.GetRevision(),
		AtMost: f.size(req.GetPageSize(), defaultHistoryPage, maxHistoryPage), Changes: maxChangesOfEach, Documents: req.GetDocuments(), MaxSize: maxAnswerBytes / 2,
		WithoutMachines: req.GetWithoutMachines(),
	}
	if q.Only < 0 {
		f.addf("revision", "must not be negative")
	}
	if q.Only > 0 {
		q.Changes = maxChangesOfOne
	}
	if token := f.token(req); token != nil {
		q.Before = token.Revision
	}
	if err := f.err(); err != nil {
		return nil, err
	}
	if err := narrow(ctx, caller.Read, &q.Selection); err != nil {
		return nil, err
	}
	page, err := s.history.Revisions(ctx, q)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	answer := &adminv1.HistoryResponse{LeftOut: page.LeftOut}
	for i := range page.Revisions {
		r, err := pastRevision(&page.Revisions[i])
		if err != nil {
			return nil, s.fail(ctx, err)
		}
		answer.Revisions = append(answer.Revisions, r)
	}
	if page.Next > 0 {
		answer.NextPageToken = (&token{Asked: requestDigest(req), Revision: page.Next}).String()
	}
	return answer, nil
}

func pastRevision(r *history.PastRevision) (*adminv1.Revision, error) {
	revision := &adminv1.Revision{
		Revision: r.Revision, Author: r.Author, Application: r.Application, Message: r.Message, Time: stamp.Of(r.Time),
		Size: int32(r.Size), OmittedChanges: int32(r.Omitted),
	}
	for _, c := range r.Changes {
		change, err := changeOf(c.Operation, &feed.Change{Key: c.Key, Before: c.Before, After: c.After})
		if err != nil {
			return nil, err
		}
		revision.Changes = append(revision.Changes, change)
	}
	return revision, nil
}

func changeOf(operation store.Operation, c *feed.Change) (*adminv1.Change, error) {
	before, err := resourceOf(c.Before)
	if err != nil {
		return nil, err
	}
	after, err := resourceOf(c.After)
	if err != nil {
		return nil, err
	}
	return &adminv1.Change{Resource: refTo(c.Key), Operation: string(operation), Before: before, After: after}, nil
}
