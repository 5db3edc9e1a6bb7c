// Package refusal is how those who give certificates say that they give none: a gRPC status that has the reason, for programs, beside the
// words for people.
package refusal

import (
	"fmt"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

// Domain is that of the google.rpc.ErrorInfo in the statuses.
const Domain = "identity.pgmesh.io"

// prefix is what the names of the reasons begin with in the proto.
const prefix = "REFUSAL_"

// Error is why somebody is given nothing, and what to do about it. It never has a secret.
type Error struct {
	Reason identityv1.Refusal
	Text   string

	namespace, serviceAccount string // who would have been let in; empty if that is not known
}

// mostSaid bounds what is said, some of which strangers may have written.
const mostSaid = 1000

// New is a refusal with the status that its reason has.
func New(reason identityv1.Refusal, format string, args ...any) error {
	return NewFor("", "", reason, format, args...)
}

// NewFor is New for somebody of whom it is known who he would have become. It is for servers, which record that, and not for him.
func NewFor(namespace, serviceAccount string, reason identityv1.Refusal, format string, args ...any) error {
	return &Error{reason, Short(fmt.Sprintf(format, args...), mostSaid), namespace, serviceAccount}
}

// Short is a text that protobuf takes, and no longer than it may be but for the sign that there was more.
func Short(text string, most int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

func (e *Error) Error() string { return e.Text }

// The metadata that say who would have been let in.
const (
	namespaceKey      = "namespace"
	serviceAccountKey = "service_account"
)

// GRPCStatus is what the caller is told.
func (e *Error) GRPCStatus() *status.Status {
	info := &errdetails.ErrorInfo{Reason: e.Reason.String(), Domain: Domain}
	if e.namespace != "" && e.serviceAccount != "" {
		info.Metadata = map[string]string{namespaceKey: e.namespace, serviceAccountKey: e.serviceAccount}
	}
	s := status.New(CodeOf(e.Reason), e.Text)
	if detailed, err := s.WithDetails(info); err == nil {
		return detailed
	}
	return s
}

// CodeOf is the status of a reason.
func CodeOf(reason identityv1.Refusal) codes.Code {
	switch reason {
	case identityv1.Refusal_REFUSAL_REQUEST:
		return codes.InvalidArgument
	case identityv1.Refusal_REFUSAL_REVOKED, identityv1.Refusal_REFUSAL_JWT_CLAIMS:
		return codes.PermissionDenied
	case identityv1.Refusal_REFUSAL_UNAVAILABLE:
		return codes.Unavailable
	default:
		return codes.Unauthenticated
	}
}

// Whom is who somebody would have become, as NewFor was told: empty if it is not known.
func Whom(err error) (namespace, serviceAccount string) {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.GetDomain() == Domain {
			return info.GetMetadata()[namespaceKey], info.GetMetadata()[serviceAccountKey]
		}
	}
	return "", ""
}

// Of is the reason of an error, REFUSAL_UNSPECIFIED if it has none.
func Of(err error) identityv1.Refusal {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.GetDomain() == Domain {
			return identityv1.Refusal(identityv1.Refusal_value[info.GetReason()])
		}
	}
	return identityv1.Refusal_REFUSAL_UNSPECIFIED
}

// Word is a reason as the database has it, such as token_used; empty for none.
func Word(reason identityv1.Refusal) string {
	if reason == identityv1.Refusal_REFUSAL_UNSPECIFIED {
		return ""
	}
	return strings.ToLower(strings.TrimPrefix(reason.String(), prefix))
}

// Parse undoes Word. A word that this program does not know is a refusal nevertheless.
func Parse(word string) identityv1.Refusal {
	if word == "" {
		return identityv1.Refusal_REFUSAL_UNSPECIFIED
	}
	if reason, known := identityv1.Refusal_value[prefix+strings.ToUpper(word)]; known {
		return identityv1.Refusal(reason)
	}
	return identityv1.Refusal_REFUSAL_NO_CREDENTIAL
}
