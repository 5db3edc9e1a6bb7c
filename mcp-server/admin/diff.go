package admin

import (
	"context"

	"google.golang.org/grpc"

	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/internal/kit/stamp"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/history"
)

// Diff compares two states of the mesh.
func (s *Service) Diff(req *adminv1.DiffRequest, stream grpc.ServerStreamingServer[adminv1.DiffResponse]) error {
	ctx := stream.Context()
	var f fields
	d := history.Difference{Selection: f.selection(req), From: f.from(req), To: f.to(req)}
	if d.From.IsNow() {
		f.addf("from", "say from which revision or time: from_revision or from_time")
	}
	if err := f.err(); err != nil {
		return err
	}
	if err := narrow(ctx, caller.Read, &d.Selection); err != nil {
		return err
	}
	out := &differences{send: stream.Send}
	err := s.history.Diff(ctx, d, out.begin, out.add)
	if err == nil {
		err = out.flush()
	}
	if err != nil {
		return s.failStream(ctx, err)
	}
	return nil
}

func (f *fields) from(req *adminv1.DiffRequest) store.Moment {
	if v, given := req.GetFrom().(*adminv1.DiffRequest_FromRevision); given {
		return f.moment("from_", &v.FromRevision, nil)
	}
	return f.moment("from_", nil, req.GetFromTime())
}

func (f *fields) to(req *adminv1.DiffRequest) store.Moment {
	if v, given := req.GetTo().(*adminv1.DiffRequest_ToRevision); given {
		return f.moment("to_", &v.ToRevision, nil)
	}
	return f.moment("to_", nil, req.GetToTime())
}

// differences sends a diff in portions.
type differences struct {
	send     func(*adminv1.DiffResponse) error
	from, to store.Revision
	pending  []*adminv1.ResourceDiff
	size     int
}

func (d *differences) begin(from, to store.Revision) error {
	d.from, d.to = from, to
	return d.send(&adminv1.DiffResponse{From: from, To: to})
}

func (d *differences) add(r *history.ResourceDiff) error {
	diff := &adminv1.ResourceDiff{Resource: refTo(r.Key), Operation: string(r.Operation)}
	for _, field := range r.Fields {
		before, err := valueOf(field.Before)
		if err != nil {
			return err
		}
		after, err := valueOf(field.After)
		if err != nil {
			return err
		}
		diff.Fields = append(diff.Fields, &adminv1.FieldDiff{Path: field.Path, Before: before, After: after})
		d.size += len(field.Path) + len(field.Before) + len(field.After)
	}
	d.pending = append(d.pending, diff)
	if len(d.pending) < maxPortionSize && d.size < maxPortionBytes {
		return nil
	}
	return d.flush()
}

func (d *differences) flush() error {
	if len(d.pending) == 0 {
		return nil
	}
	pending := d.pending
	d.pending, d.size = nil, 0
	return d.send(&adminv1.DiffResponse{From: d.from, To: d.to, Resources: pending})
}

// Blame returns who set each field of a resource.
func (s *Service) Blame(ctx context.Context, req *adminv1.BlameRequest) (*adminv1.BlameResponse, error) {
	var f fields
	key := f.resource(req.GetResource())
	if err := f.err(); err != nil {
		return nil, err
	}
	if err := require(ctx, caller.Read, key); err != nil {
		return nil, err
	}
	found, err := s.history.Blame(ctx, key)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	answer := &adminv1.BlameResponse{}
	for _, b := range found {
		value, err := valueOf(b.Value)
		if err != nil {
			return nil, s.fail(ctx, err)
		}
		answer.Fields = append(answer.Fields, &adminv1.BlamedField{
			Path: b.Path, Value: value, Revision: b.Revision, Time: stamp.Of(b.Time), Author: b.Author, Application: b.Application, Message: b.Message,
		})
	}
	return answer, nil
}
