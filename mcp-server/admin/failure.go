package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	"github.com/pgmesh/pgmesh/internal/stamp"
	"github.com/pgmesh/pgmesh/kinds"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	"github.com/pgmesh/pgmesh/store"
)

// fail turns an error into the status that the caller gets. What is the operator's business and not the caller's is logged.
func (s *Service) fail(ctx context.Context, err error) error {
	var violations kinds.Errors
	var refused *store.RefusedError
	var blocked *store.BlockedError
	switch absent, changed := missing(err), every[*store.ChangedError](err); {
	case errors.As(err, &violations):
		return refusal(violations)
	case len(absent) > 0:
		return s.notFound(ctx, absent, "")
	case len(changed) > 0:
		return conflict(err, changed)
	case tooOld(err):
		return withDetails(codes.OutOfRange, err.Error()+". List, and then watch after the revision of the list",
			&errdetails.ErrorInfo{Reason: "TOO_OLD", Domain: "pgmesh.io"})
	case errors.Is(err, store.ErrNoHistory):
		return status.Error(codes.OutOfRange, err.Error())
	case errors.As(err, &refused):
		return status.Error(codes.FailedPrecondition, err.Error())
	case errors.As(err, &blocked):
		s.log.Warn("a change waited too long for a lock", "error", err)
		return status.Error(codes.Aborted, err.Error())
	case errors.Is(err, store.ErrConflict):
		return status.Errorf(codes.Aborted, "%v, %d times; run it again", err, conflicts)
	case ctx.Err() != nil:
		return status.FromContextError(ctx.Err()).Err()
	case away(err):
		s.log.Warn("refused a change, because the database is away", "error", err)
		return unavailable()
	}
	s.log.Error("a change failed", "error", err)
	return status.Error(codes.Internal, err.Error())
}

// told bounds the violations of one answer, which travels in headers. Further ones are counted.
const told = 100

// refusal tells what is wrong with a request's resources.
func refusal(violations kinds.Errors) error {
	listed := violations[:min(len(violations), told)]
	ours := &adminv1.Refusal{Omitted: int32(len(violations) - len(listed))}
	everyones := &errdetails.BadRequest{}
	for _, v := range listed {
		ours.Violations = append(ours.Violations, &adminv1.Violation{
			File: v.File, Document: int32(v.Document), Line: int32(v.Line),
			Kind: v.Kind, Namespace: v.Namespace, Name: v.Name, Path: v.Path, Reason: v.Reason, Hint: v.Hint,
		})
		everyones.FieldViolations = append(everyones.FieldViolations, fieldViolation(v))
	}
	return withDetails(codes.InvalidArgument, summary(violations), ours, everyones)
}

// fieldViolation names as the field the resource and the path in it, with the place where it was written.
func fieldViolation(v kinds.Violation) *errdetails.BadRequest_FieldViolation {
	field, description := v, kinds.Violation{Reason: v.Reason, Hint: v.Hint}
	field.Reason, field.Hint = "", ""
	return &errdetails.BadRequest_FieldViolation{Field: field.Error(), Description: description.Error()}
}

// summarised is how many violations the message repeats, for those who see the message alone.
const summarised = 5

func summary(violations kinds.Errors) string {
	text := violations[:min(len(violations), summarised)].Error()
	if more := len(violations) - summarised; more > 0 {
		text += fmt.Sprintf("\nand %d more", more)
	}
	return text
}

// hinted is how many missing resources a near one is looked for of.
const hinted = 3

// notFound says which resources there are not, what that means for the request, and what may have been meant.
func (s *Service) notFound(ctx context.Context, keys []kinds.Key, consequence string) error {
	names, hints := make([]string, len(keys)), []string{}
	var details []protoadapt.MessageV1
	for i, k := range keys {
		names[i] = k.String()
		info := &errdetails.ResourceInfo{ResourceType: k.Kind.TypeURL(), ResourceName: k.FullName(), Description: "not found"}
		if i < hinted {
			if near, err := s.store.Near(ctx, k); err == nil && near != "" { // without it the answer is right as well
				hints = append(hints, near)
				info.Description += "; " + near
			}
		}
		if i < told {
			details = append(details, info)
		}
	}
	message := strings.Join(names, ", ") + ": not found" + consequence
	if len(hints) > 0 {
		message += " (" + strings.Join(hints, "; ") + ")"
	}
	return withDetails(codes.NotFound, message, details...)
}

// conflict says which resources are not as they were expected, and who has changed them.
func conflict(err error, changed []*store.ChangedError) error {
	detail := &adminv1.Conflicts{}
	for _, c := range changed[:min(len(changed), told)] {
		detail.Conflicts = append(detail.Conflicts, &adminv1.RevisionConflict{
			Resource: refTo(c.Expected.Key), Expected: c.Expected.Revision, Revision: c.Revision, Absent: c.Absent,
			Author: c.Author, Application: c.Application, Message: c.Message, Time: stamp.Of(c.Time),
		})
	}
	return withDetails(codes.Aborted, err.Error()+"\nnothing was changed; look at it again", detail)
}

// unavailable says nothing of the error, which may name hosts and users.
func unavailable() error {
	return withDetails(codes.Unavailable,
		"the server cannot reach its database just now, so nothing can be changed; what is configured stays in force. "+
			"Run it again later: what was changed already is then unchanged",
		&errdetails.ErrorInfo{Reason: "DATABASE_UNAVAILABLE", Domain: "pgmesh.io"})
}

func withDetails(code codes.Code, message string, details ...protoadapt.MessageV1) error {
	st, err := status.New(code, message).WithDetails(details...)
	if err != nil {
		panic(fmt.Sprintf("a status of messages that are linked in: %v", err))
	}
	return st.Err()
}

// away tells whether the database could not be asked, as opposed to having answered that something is wrong.
func away(err error) bool {
	if _, answered := errors.AsType[*pgconn.PgError](err); answered {
		return store.Temporary(err)
	}
	return !errors.Is(err, store.ErrSchema)
}
