package admin

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/internal/kit/panics"
	"github.com/pgmesh/pgmesh/internal/kit/stamp"
	"github.com/pgmesh/pgmesh/kinds"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/resources"
)

// Import creates or replaces the resources that a client sends in portions, in one transaction.
func (s *Service) Import(stream grpc.BidiStreamingServer[adminv1.ImportRequest, adminv1.ImportResponse]) error {
	ctx := stream.Context()
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	start := first.GetStart()
	if start == nil {
		return status.Error(codes.InvalidArgument, "the first message of an import must be its start")
	}
	var f fields
	change := f.origin(ctx, start).change(start.GetDryRun())
	change.Confirm = f.confirm(start.GetConfirmWithin())
	if err := f.err(); err != nil {
		return err
	}
	in := &importStream{stream: stream, first: map[kinds.Key]place{}}
	prune, err := pruneOf(start.GetPrune())
	if err != nil {
		return s.failStream(ctx, err)
	}
	if prune != nil {
		if err := within(ctx, caller.Write, resources.Selection{Namespaces: prune.Namespaces, Kinds: prune.Kinds}); err != nil {
			return err
		}
	}
	applied, err := s.resources.Import(ctx, change, func(i *resources.Importing) error {
		if err := in.portions(ctx, i); err != nil || prune == nil {
			return err
		}
		return in.prune(ctx, i, *prune)
	})
	if err != nil {
		return s.failStream(ctx, err)
	}
	if applied.Revision > 0 {
		s.awaitServed(ctx, applied.Revision)
	}
	return stream.Send(&adminv1.ImportResponse{End: &adminv1.ImportEnd{
		Revision: applied.Revision, Warnings: problemsOf(applied.Warnings), OmittedWarnings: int32(applied.Omitted),
		ConfirmBy: stamp.Of(applied.Deadline),
	}})
}

// failStream is fail for a stream: it returns an error that is a status already as it is.
func (s *Service) failStream(ctx context.Context, err error) error {
	if _, isStatus := status.FromError(err); isStatus {
		return err
	}
	if errors.Is(err, store.ErrConflict) {
		return status.Errorf(codes.Aborted, "%v; nothing was imported, run it again", err)
	}
	return s.fail(ctx, err)
}

// importStream is an import under way.
type importStream struct {
	stream grpc.BidiStreamingServer[adminv1.ImportRequest, adminv1.ImportResponse]
	first  map[kinds.Key]place // where each resource was written
	wrong  kinds.Errors
}

// readPortion is one portion of an import, parsed.
type readPortion struct {
	documents []*kinds.Document
	err       error // of receiving or parsing it
}

// read receives and parses portions until the client is done, and closes the channel. It works one
// portion ahead of the store, and ends with ctx at the latest.
func (in *importStream) read(ctx context.Context, portions chan<- readPortion) {
	defer close(portions)
	for {
		var p readPortion
		req, err := in.stream.Recv()
		if errors.Is(err, io.EOF) {
			return
		}
		if p.err = err; err == nil {
			p.documents, p.err = panics.Receive(func() ([]*kinds.Document, error) { return readAs(unsealed, req.GetPortion().GetDocuments()) })
		}
		select {
		case portions <- p:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// portions stores portion after portion. After a violation it stores no more but reads on, to
// report them all. The next portion is read while one is stored, because both take time.
func (in *importStream) portions(ctx context.Context, i *resources.Importing) error {
	reading, stop := context.WithCancel(ctx)
	defer stop()
	portions := make(chan readPortion)
	go in.read(reading, portions)
	for p := range portions {
		if err := in.portion(ctx, i, p); err != nil {
			return err
		}
	}
	if len(in.wrong) > 0 {
		return in.wrong
	}
	return nil
}

func (in *importStream) portion(ctx context.Context, i *resources.Importing, p readPortion) error {
	wrong, refused := errors.AsType[kinds.Errors](p.err)
	if p.err != nil && !refused {
		return p.err
	}
	in.wrong = append(in.wrong, wrong...)
	documents := p.documents
	for _, d := range documents {
		in.recordPlace(d)
	}
	answer := &adminv1.ImportResponse{}
	if len(in.wrong) == 0 {
		upserts, keys := upsertsOf(documents)
		if err := require(ctx, caller.Write, keys...); err != nil {
			return err
		}
		done, err := i.Put(ctx, upserts)
		if err != nil {
			return addPlaces(err, documents)
		}
		answer.Outcomes = outcomes(keys, done)
	}
	return in.stream.Send(answer)
}

// recordPlace records where a resource was written, or a violation if an earlier portion has it
// too.
func (in *importStream) recordPlace(d *kinds.Document) {
	key := d.Resource.Key()
	if earlier, dup := in.first[key]; dup {
		in.wrong = append(in.wrong, duplicate(d, earlier))
		return
	}
	in.first[key] = placeOf(d)
}

func (in *importStream) prune(ctx context.Context, i *resources.Importing, p resources.Prune) error {
	for key := range in.first {
		p.Kept = append(p.Kept, key)
	}
	gone, err := i.Prune(ctx, p)
	if err != nil {
		return err
	}
	answer := &adminv1.ImportResponse{}
	for _, key := range gone {
		answer.Outcomes = append(answer.Outcomes, &adminv1.Outcome{Resource: refTo(key), Action: adminv1.Outcome_ACTION_DELETED})
	}
	return in.stream.Send(answer)
}

// pruneOf reads what to prune; nil if nothing.
func pruneOf(p *adminv1.Prune) (*resources.Prune, error) {
	if p == nil {
		return nil, nil
	}
	if len(p.GetNamespaces()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "prune: name at least one namespace")
	}
	of, err := kindsOf(p.GetKinds())
	return &resources.Prune{Namespaces: p.GetNamespaces(), Kinds: of}, err
}
