// Package reason says in plain words why a call to a server failed.
package reason

import (
	"errors"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Plain returns why a server was not reached, or why it ended a call, without what gRPC wraps around
// the reason. It still wraps the error itself.
func Plain(err error) error {
	var wrapped interface{ GRPCStatus() *status.Status }
	if !errors.As(err, &wrapped) {
		return err
	}
	s := wrapped.GRPCStatus()
	text := Cause(s.Message())
	if s.Code() != codes.Unavailable {
		text += " (" + s.Code().String() + ")"
	}
	return &plain{text, err}
}

// plain is an error in other words.
type plain struct {
	text string
	err  error
}

func (p *plain) Error() string { return p.text }
func (p *plain) Unwrap() error { return p.err }

// NoTLS is the cause where a server that is asked over TLS answers without it.
const NoTLS = "it does not speak TLS"

// Cause extracts the innermost reason from gRPC's message about a failed connection.
func Cause(message string) string {
	if _, inner, found := strings.Cut(message, `desc = "`); found {
		message = strings.TrimSuffix(inner, `"`)
	}
	for _, prefix := range []string{"transport: ", "Error while dialing: ", "dial tcp ", "dial tcp: "} {
		message = strings.TrimPrefix(message, prefix)
	}
	if strings.Contains(message, "first record does not look like a TLS handshake") {
		return NoTLS
	}
	if _, reason, found := strings.Cut(message, ": connect: "); found {
		return reason
	}
	return message
}
