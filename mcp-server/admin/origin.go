package admin

import (
	"context"
	"net"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/store"
)

// origin is who changes the mesh, with what program, and why: as the caller says, since callers have no identities yet.
type origin struct{ author, application, message string }

const (
	longestAuthor      = 256
	longestMessage     = 8 << 10
	longestApplication = 63 // Postgres keeps no more of application_name
)

func originOf(ctx context.Context, req interface {
	GetAuthor() string
	GetMessage() string
},
) (origin, error) {
	o := origin{author: req.GetAuthor(), application: program(ctx), message: req.GetMessage()}
	if o.author == "" {
		o.author = address(ctx)
	}
	return o, errorOr(text("author", o.author, longestAuthor), text("message", o.message, longestMessage))
}

func (o origin) change(dryRun bool) store.Apply {
	return store.Apply{Author: o.author, Application: o.application, Message: o.message, DryRun: dryRun}
}

// text checks what Postgres could not keep, or nobody would read.
func text(field, value string, longest int) error {
	switch {
	case strings.ContainsRune(value, 0):
		return status.Errorf(codes.InvalidArgument, "%s: must not contain the character NUL", field)
	case len(value) > longest:
		return status.Errorf(codes.InvalidArgument, "%s: must be at most %d bytes long, is %d", field, longest, len(value))
	}
	return nil
}

// errorOr returns the first error.
func errorOr(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// address is where the request came from.
func address(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return ""
	}
	host, _, err := net.SplitHostPort(p.Addr.String())
	if err != nil {
		host = p.Addr.String()
	}
	return "somebody at " + host
}

// program is the first word of the caller's user agent: "mcp-client/1.0", or else the name of its gRPC library.
func program(ctx context.Context) string {
	m, _ := metadata.FromIncomingContext(ctx)
	agents := m.Get("user-agent")
	if len(agents) == 0 {
		return ""
	}
	first, _, _ := strings.Cut(agents[0], " ")
	return first[:min(len(first), longestApplication)]
}
