package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	"github.com/pgmesh/pgmesh/internal/kit/stamp"
	"github.com/pgmesh/pgmesh/internal/kit/terse"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-server/failure"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/resources"
)

// fail turns an error into the status that the caller gets, and logs what concerns the operator
// rather than the caller.
func (s *Service) fail(ctx context.Context, err error) error {
	var violations kinds.Errors
	var refused *store.RefusedError
	var blocked *store.BlockedError
	switch absent, changed := missingKeys(err), errorsOfType[*resources.ChangedError](err); {
	case errors.As(err, &violations):
		return refusal(violations)
	case len(absent) > 0:
		return s.notFound(ctx, absent, nil, "")
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
		return status.Errorf(codes.Aborted, "%v, %d times; run it again", err, maxAttempts)
	case ctx.Err() != nil:
		return status.FromContextError(ctx.Err()).Err()
	case away(err):
		s.log.Warn("refused a change, because the database is away", "error", err)
		return failure.NoDatabase("the server cannot reach its database just now, so nothing can be changed; what is configured stays in force. " +
			"Run it again later: what was changed already is then unchanged")
	}
	s.log.Error("a change failed", "error", err)
	return status.Error(codes.Internal, err.Error())
}

// failed is fail of what may have gone well.
func (s *Service) failed(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	return s.fail(ctx, err)
}

// maxDetails bounds the list in the details of a status, because these travel in headers. Of
// violations, the rest are counted.
const maxDetails = 100

// refusal returns the status that lists violations, both as our message and as Google's BadRequest.
func refusal(violations kinds.Errors) error {
	listed := violations[:min(len(violations), maxDetails)]
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

// fieldViolation describes a violation: its field is the place, the resource and the path.
func fieldViolation(v kinds.Violation) *errdetails.BadRequest_FieldViolation {
	field, description := v, kinds.Violation{Reason: v.Reason, Hint: v.Hint}
	field.Reason, field.Hint = "", ""
	return &errdetails.BadRequest_FieldViolation{Field: field.Error(), Description: description.Error()}
}

// maxSummarised is how many violations the message repeats, for clients that show the message
// alone.
const maxSummarised = 5

func summary(violations kinds.Errors) string {
	text := violations[:min(len(violations), maxSummarised)].Error()
	if more := len(violations) - maxSummarised; more > 0 {
		text += fmt.Sprintf("\nand %d more", more)
	}
	return text
}

// maxHints is how many missing resources get a hint at a similar name, for each hint is a query.
const maxHints = 3

// elsewhere says in which registry a resource is that the database has not; "" if in none.
func (s *Service) elsewhere(k kinds.Key) string {
	if s.joined == nil {
		return ""
	}
	registry, entry := s.joined.Find(k)
	if registry == "" {
		return ""
	}
	if entry != "" {
		entry = " (" + terse.Text(entry, mostEntry) + ")"
	}
	return k.String() + " comes from the registry " + registry + entry + ": it can be changed there alone, and get shows it"
}

// mostEntry bounds what is said of where a resource is in its registry.
const mostEntry = 200

// notFound lists the missing resources, the consequence for the request, and what may have been
// meant, which is none of what the request names by itself.
func (s *Service) notFound(ctx context.Context, keys, named []kinds.Key, consequence string) error {
	names, hints := make([]string, len(keys)), []string{}
	var details []protoadapt.MessageV1
	for i, k := range keys {
		names[i] = k.String()
		info := &errdetails.ResourceInfo{ResourceType: k.Kind.TypeURL(), ResourceName: k.FullName(), Description: "not found"}
		if where := s.elsewhere(k); where != "" {
			hints = append(hints, where)
			info.Description += "; " + where
		} else if i < maxHints && s.feed != nil {
			if near, err := s.resources.Near(ctx, k, named...); err == nil && near != "" { // a hint is optional
				if !slices.Contains(hints, near) {
					hints = append(hints, near)
				}
				info.Description += "; " + near
			}
		}
		if i < maxDetails {
			details = append(details, info)
		}
	}
	message := strings.Join(names, ", ") + ": not found" + consequence
	if len(hints) > 0 {
		message += " (" + strings.Join(hints, "; ") + ")"
	}
	return withDetails(codes.NotFound, message, details...)
}

// conflict lists the resources that are not at the expected revision, and who changed them.
func conflict(err error, changed []*resources.ChangedError) error {
	detail := &adminv1.Conflicts{}
	for _, c := range changed[:min(len(changed), maxDetails)] {
		detail.Conflicts = append(detail.Conflicts, &adminv1.RevisionConflict{
			Resource: refTo(c.Expected.Key), Expected: c.Expected.Revision, Revision: c.Revision, Absent: c.Absent,
			Author: c.Author, Application: c.Application, Message: c.Message, Time: stamp.Of(c.Time),
		})
	}
	return withDetails(codes.Aborted, err.Error()+"\nnothing was changed; look at it again", detail)
}

func withDetails(code codes.Code, message string, details ...protoadapt.MessageV1) error {
	st, err := status.New(code, message).WithDetails(details...)
	if err != nil {
		panic(fmt.Sprintf("a status of messages that are linked in: %v", err))
	}
	return st.Err()
}

// away reports whether the database could not be asked, as opposed to having answered with an
// error.
func away(err error) bool {
	if _, answered := errors.AsType[*pgconn.PgError](err); answered {
		return store.Temporary(err)
	}
	return !errors.Is(err, store.ErrSchema)
}
