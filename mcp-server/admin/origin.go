package admin

import (
	"context"
	"net"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/store/problems"
	"github.com/pgmesh/pgmesh/store/resources"
)

// origin is who changes the mesh, with what program, and why. The author is the caller's proven
// name; an unproven caller is whoever it says it is.
type origin struct {
	author, application, message string

	limited bool              // whether the quotas of namespaces hold for the caller
	reading *problems.Reading // what the caller may read
}

const (
	maxAuthorBytes      = 256
	maxMessageBytes     = 8 << 10
	maxApplicationBytes = 63 // Postgres keeps no more of application_name
)

// origin reads who makes a change, and why.
func (f *fields) origin(ctx context.Context, req interface {
	GetAuthor() string
	GetMessage() string
},
) origin {
	named := req.GetAuthor()
	if known := caller.From(ctx).Author(); known != "" {
		named = known
	}
	o := origin{author: named, application: program(ctx), message: req.GetMessage(), limited: !caller.From(ctx).Unlimited(caller.Write), reading: readingOf(ctx)}
	if o.author == "" {
		o.author = address(ctx)
	}
	f.text("author", o.author, maxAuthorBytes)
	f.text("message", o.message, maxMessageBytes)
	return o
}

func (o origin) change(dryRun bool) resources.Apply {
	return resources.Apply{Author: o.author, Application: o.application, Message: o.message, Limited: o.limited, Reading: o.reading, DryRun: dryRun}
}

// address returns the address that the request came from, as an author's name.
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

// program returns the first word of the user agent: "mcp-client/1.0", or else the name of the
// caller's gRPC library.
func program(ctx context.Context) string {
	m, _ := metadata.FromIncomingContext(ctx)
	agents := m.Get("user-agent")
	if len(agents) == 0 {
		return ""
	}
	first, _, _ := strings.Cut(agents[0], " ")
	return first[:min(len(first), maxApplicationBytes)]
}
