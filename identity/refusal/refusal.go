// Package refusal represents why an authority refuses a certificate: a gRPC status with a
// machine-readable reason and a text for people.
package refusal

import (
	"fmt"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

// Domain is the domain of the google.rpc.ErrorInfo in these statuses.
const Domain = "identity.pgmesh.io"

// prefix begins the names of the reasons in the proto.
const prefix = "REFUSAL_"

// Error says why a certificate is refused and what to do about it. It never contains a secret.
type Error struct {
	Reason identityv1.Refusal
	Text   string

	namespace, serviceAccount string // who the applicant would have become; empty if unknown
	revocation                *identityv1.Revocation
}

// maxText bounds the text, parts of which strangers may have written.
const maxText = 1000

// New returns a refusal with the status code of its reason.
func New(reason identityv1.Refusal, format string, args ...any) error {
	return NewFor("", "", reason, format, args...)
}

// NewFor is New with the identity that the applicant would have got. Servers record it; the
// applicant must not see it.
func NewFor(namespace, serviceAccount string, reason identityv1.Refusal, format string, args ...any) error {
	return &Error{reason, Short(fmt.Sprintf(format, args...), maxText), namespace, serviceAccount, nil}
}

// NewRevoked is the refusal of somebody who was revoked. [RevocationOf] reads the revocation on the
// other side.
func NewRevoked(by *identityv1.Revocation, format string, args ...any) error {
	return &Error{Reason: identityv1.Refusal_REFUSAL_REVOKED, Text: Short(fmt.Sprintf(format, args...), maxText), revocation: by}
}

// Short returns the text as valid UTF-8, cut to `most` bytes and marked with … if it was longer.
func Short(text string, most int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

func (e *Error) Error() string { return e.Text }

// The metadata keys of the applicant's identity.
const (
	namespaceKey      = "namespace"
	serviceAccountKey = "service_account"
)

// GRPCStatus returns the status for the caller.
func (e *Error) GRPCStatus() *status.Status {
	info := &errdetails.ErrorInfo{Reason: e.Reason.String(), Domain: Domain}
	if e.namespace != "" && e.serviceAccount != "" {
		info.Metadata = map[string]string{namespaceKey: e.namespace, serviceAccountKey: e.serviceAccount}
	}
	s := status.New(CodeOf(e.Reason), e.Text)
	details := []protoadapt.MessageV1{info}
	if e.revocation != nil {
		details = append(details, e.revocation)
	}
	if detailed, err := s.WithDetails(details...); err == nil {
		return detailed
	}
	return s
}

// CodeOf returns the status code of a reason.
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

// Whom returns the identity that NewFor was given, or "" if it is unknown.
func Whom(err error) (namespace, serviceAccount string) {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.GetDomain() == Domain {
			return info.GetMetadata()[namespaceKey], info.GetMetadata()[serviceAccountKey]
		}
	}
	return "", ""
}

// Of returns the reason of an error, or REFUSAL_UNSPECIFIED if it has none.
func Of(err error) identityv1.Refusal {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.GetDomain() == Domain {
			return identityv1.Refusal(identityv1.Refusal_value[info.GetReason()])
		}
	}
	return identityv1.Refusal_REFUSAL_UNSPECIFIED
}

// RevocationOf returns why the caller is no member any more, or nil if the error does not say so.
func RevocationOf(err error) *identityv1.Revocation {
	for _, detail := range status.Convert(err).Details() {
		if r, ok := detail.(*identityv1.Revocation); ok {
			return r
		}
	}
	return nil
}

// Word returns a reason as the database stores it, such as token_used, or "" for none.
func Word(reason identityv1.Refusal) string {
	if reason == identityv1.Refusal_REFUSAL_UNSPECIFIED {
		return ""
	}
	return strings.ToLower(strings.TrimPrefix(reason.String(), prefix))
}

// Parse is the inverse of Word. It reads a word that this program does not know as
// REFUSAL_NO_CREDENTIAL.
func Parse(word string) identityv1.Refusal {
	if word == "" {
		return identityv1.Refusal_REFUSAL_UNSPECIFIED
	}
	if reason, known := identityv1.Refusal_value[prefix+strings.ToUpper(word)]; known {
		return identityv1.Refusal(reason)
	}
	return identityv1.Refusal_REFUSAL_NO_CREDENTIAL
}
