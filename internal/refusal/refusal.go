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

// New is a refusal with the status that its reason has.
func New(reason identityv1.Refusal, format string, args ...any) error {
	return NewFor("", "", reason, format, args...)
}

// The metadata that say who would have been let in.
const (
	namespaceKey      = "namespace"
	serviceAccountKey = "service_account"
)

// NewFor is New for somebody of whom it is known who he would have become. It is for servers, which record that, and not for him.
func NewFor(namespace, serviceAccount string, reason identityv1.Refusal, format string, args ...any) error {
	info := &errdetails.ErrorInfo{Reason: reason.String(), Domain: Domain}
	if namespace != "" && serviceAccount != "" {
		info.Metadata = map[string]string{namespaceKey: namespace, serviceAccountKey: serviceAccount}
	}
	detailed, err := status.New(CodeOf(reason), fmt.Sprintf(format, args...)).WithDetails(info)
	if err != nil {
		panic(fmt.Sprintf("a status of a message that is linked in: %v", err))
	}
	return detailed.Err()
}

// CodeOf is the status of a reason.
func CodeOf(reason identityv1.Refusal) codes.Code {
	switch reason {
	case identityv1.Refusal_REFUSAL_REQUEST:
		return codes.InvalidArgument
	case identityv1.Refusal_REFUSAL_REVOKED:
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
