package issue

import (
	"errors"

	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/discovery/identity/trust"
	"github.com/pgmesh/pgmesh/identity/refusal"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

// aboutCertificates are reasons for which mcp-server refuses the certificate of a caller, such as
// this discovery's, and never a token.
var aboutCertificates = map[identityv1.Refusal]bool{identityv1.Refusal_REFUSAL_CERTIFICATE: true, identityv1.Refusal_REFUSAL_NO_CREDENTIAL: true}

// refusalBy turns mcp-server's answer about a token into a refusal. What it says about this
// discovery is not the machine's fault.
func refusalBy(err error) error {
	text := status.Convert(err).Message()
	if reason := refusal.Of(err); reason != identityv1.Refusal_REFUSAL_UNSPECIFIED && !aboutCertificates[reason] {
		return refusal.New(reason, "%s", text)
	}
	return refusal.New(identityv1.Refusal_REFUSAL_UNAVAILABLE, "join tokens cannot be checked now, try again: mcp-server: %s", text)
}

// refusalOf says what is wrong with a certificate.
func refusalOf(err error) error {
	why, ok := errors.AsType[*trust.RefusedError](err)
	switch {
	case ok && why.Revocation != nil:
		return refusal.NewRevoked(why.Revocation, "%s", why.Text)
	case ok:
		return refusal.New(why.Reason, "%s", why.Text)
	}
	return refusal.New(identityv1.Refusal_REFUSAL_CERTIFICATE, "%v", err)
}

// tellRefused records and logs a refusal.
func (s *Service) tellRefused(record *identityv1.Issue, r *refusal.Error) {
	record.Refusal, record.Detail = r.Reason, r.Text
	s.metrics.refused.WithLabelValues(refusal.Word(r.Reason)).Inc()
	s.refused.Do(func() {
		s.cfg.Log.Warn("refused a certificate", "reason", refusal.Word(r.Reason), "error", r.Text, "by", record.GetBy(), "identity", record.GetIdentity(),
			"enrolment", record.GetEnrolment(), "address", record.GetPeer())
	})
}

// tellIssued records and logs a certificate that was given.
func (s *Service) tellIssued(record *identityv1.Issue) {
	s.metrics.issued.WithLabelValues(record.GetBy()).Inc()
	s.cfg.Log.Info("issued a certificate", "identity", record.GetIdentity(), "enrolment", record.GetEnrolment(), "by", record.GetBy(),
		"serial", record.GetSerial(), "until", record.GetNotAfter().AsTime(), "address", record.GetPeer())
}
