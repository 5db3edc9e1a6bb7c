package issue

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/discovery/trust"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

// errorDomain is that of the ErrorInfo of a refusal.
const errorDomain = "identity.pgmesh.io"

// refusalError is why somebody is given no certificate, and what to do about it. It never has a secret.
type refusalError struct {
	reason identityv1.Refusal
	text   string
}

func refuse(reason identityv1.Refusal, format string, args ...any) error {
	return refusalWith(reason, fmt.Sprintf(format, args...))
}

// refusalWith bounds what is said, some of which strangers may have written.
func refusalWith(reason identityv1.Refusal, text string) error {
	const most = 1000
	return &refusalError{reason, short(text, most)}
}

// short is a text that protobuf takes, and no longer than it may be.
func short(text string, most int) string {
	if len(text) > most {
		text = text[:most] + "…"
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

func (e *refusalError) Error() string { return e.text }

// aboutCertificates are reasons for which mcp-server refuses one who shows a certificate, as this discovery does, and never a token.
var aboutCertificates = map[identityv1.Refusal]bool{identityv1.Refusal_REFUSAL_CERTIFICATE: true, identityv1.Refusal_REFUSAL_NO_CREDENTIAL: true}

// codesOf are the codes of refusals that are not UNAUTHENTICATED.
var codesOf = map[identityv1.Refusal]codes.Code{
	identityv1.Refusal_REFUSAL_REQUEST:     codes.InvalidArgument,
	identityv1.Refusal_REFUSAL_REVOKED:     codes.PermissionDenied,
	identityv1.Refusal_REFUSAL_JWT_CLAIMS:  codes.PermissionDenied,
	identityv1.Refusal_REFUSAL_UNAVAILABLE: codes.Unavailable,
}

// GRPCStatus is what the caller is told.
func (e *refusalError) GRPCStatus() *status.Status {
	code, known := codesOf[e.reason]
	if !known {
		code = codes.Unauthenticated
	}
	s := status.New(code, e.text)
	if detailed, err := s.WithDetails(&errdetails.ErrorInfo{Domain: errorDomain, Reason: e.reason.String()}); err == nil {
		return detailed
	}
	return s
}

// label is a reason in metrics and logs.
func label(r identityv1.Refusal) string {
	return strings.ToLower(strings.TrimPrefix(r.String(), "REFUSAL_"))
}

// refusalBy is what mcp-server says to a token. What it says to this discovery is no fault of the machine's.
func refusalBy(err error) error {
	s := status.Convert(err)
	for _, detail := range s.Details() {
		info, ok := detail.(*errdetails.ErrorInfo)
		reason, known := identityv1.Refusal_value[info.GetReason()]
		if ok && known && info.GetDomain() == errorDomain && !aboutCertificates[identityv1.Refusal(reason)] {
			return refusalWith(identityv1.Refusal(reason), s.Message())
		}
	}
	return refuse(identityv1.Refusal_REFUSAL_UNAVAILABLE, "join tokens cannot be checked now, try again: mcp-server: %s", s.Message())
}

// refusalOf is what is wrong with a certificate.
func refusalOf(err error) error {
	if why, ok := errors.AsType[*trust.RefusedError](err); ok {
		return refusalWith(why.Reason, why.Text)
	}
	return refuse(identityv1.Refusal_REFUSAL_CERTIFICATE, "%v", err)
}

// tellRefused writes a refusal down.
func (s *Service) tellRefused(record *identityv1.Issue, r *refusalError) {
	record.Refusal, record.Detail = r.reason, r.text
	s.metrics.refused.WithLabelValues(label(r.reason)).Inc()
	s.refused.Do(func() {
		s.cfg.Log.Warn("refused a certificate", "reason", label(r.reason), "detail", r.text, "by", record.GetBy(), "identity", record.GetIdentity(),
			"enrolment", record.GetEnrolment(), "address", record.GetPeer())
	})
}

// tellIssued tells of a certificate that was given.
func (s *Service) tellIssued(record *identityv1.Issue) {
	s.metrics.issued.WithLabelValues(record.GetBy()).Inc()
	s.cfg.Log.Info("issued a certificate", "identity", record.GetIdentity(), "enrolment", record.GetEnrolment(), "by", record.GetBy(),
		"serial", record.GetSerial(), "until", record.GetNotAfter().AsTime(), "address", record.GetPeer())
}
