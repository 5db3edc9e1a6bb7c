// Package connect speaks to one server: it calls its admin API, and reads and follows its resources
// over MCP.
package connect

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/dial"
	"github.com/pgmesh/pgmesh/internal/kit/reason"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/mcp"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// Server is the server that a command talks to, and how.
type Server struct {
	Address  string
	Dial     dial.Options
	Timeout  time.Duration
	Protocol mcp.Protocol // for reading
	// Agent is what the program calls itself, which the history has beside the author: mcp-client if it
	// is "".
	Agent string
	// Aside is the context that was left aside, as it is for another server; "" if none was.
	Aside string
}

// credentials returns the dial options for the connection. Plaintext must be enabled explicitly,
// here and on the server.
func (s *Server) credentials() ([]grpc.DialOption, error) {
	c, err := s.Dial.To(nil, s.Address)
	if err != nil {
		return nil, s.misused(err.Error())
	}
	return c.DialOptions(), nil
}

// Connect makes a connection for calls of the admin API, for those who make many.
func (s *Server) Connect() (*grpc.ClientConn, error) { return s.connect(math.MaxInt32) }

// connect connects to the admin API, whose answers may be larger than gRPC's default limit.
func (s *Server) connect(largest int, more ...grpc.DialOption) (*grpc.ClientConn, error) {
	credentials, err := s.credentials()
	if err != nil {
		return nil, err
	}
	options := slices.Concat(credentials, more, []grpc.DialOption{
		grpc.WithUserAgent(cmp.Or(s.Agent, "mcp-client")), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(largest)),
	})
	conn, err := grpc.NewClient(s.Address, append(options, grpc.WithDisableServiceConfig())...) // skips the DNS lookup for a service config
	if err != nil {
		return nil, s.misused(err.Error())
	}
	return conn, nil
}

func (s *Server) misused(what string) error {
	return failure.Usage(nil, fmt.Errorf("--server %s: %s", s.Address, what))
}

// Explain turns an error of a call or a stream into one that tells the user what to do.
func (s *Server) Explain(err error) error {
	st := status.Convert(err)
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *adminv1.Refusal:
			return &failure.Refused{Violations: violationsOf(d)}
		case *adminv1.Conflicts:
			return conflictOf(d)
		case *errdetails.ErrorInfo:
			if d.GetReason() == "RELAY" {
				return &failure.Relay{Text: fmt.Sprintf("the server at %s: %s (%s)", s.Address, st.Message(), st.Code())}
			}
		}
	}
	switch st.Code() {
	case codes.DeadlineExceeded:
		return s.Silent()
	case codes.Unavailable:
		if strings.Contains(st.Message(), "server preface") && strings.Contains(st.Message(), "closed network connection") {
			return &failure.Unreachable{Text: fmt.Sprintf("the server at %s takes connections and says nothing. It may hang: ask its /readyz, and see its log", s.Address)}
		}
		if len(st.Details()) > 0 { // the server itself says what is unavailable
			return &failure.Unreachable{Text: fmt.Sprintf("the server at %s answers: %s", s.Address, st.Message())}
		}
		return &failure.Unreachable{Text: fmt.Sprintf(
			"cannot reach the server at %s: %s. %s%s", s.Address, reason.Cause(st.Message()), s.advice(st.Message()), s.aside())}
	case codes.Unauthenticated, codes.PermissionDenied:
		return &failure.Denied{Text: fmt.Sprintf("the server at %s: %s%s", s.Address, st.Message(), s.aside())}
	case codes.Unimplemented:
		return &failure.NotOffered{Text: fmt.Sprintf("the server at %s does not offer this: %s", s.Address, st.Message())}
	case codes.NotFound, codes.InvalidArgument:
		return fmt.Errorf("%s", st.Message())
	}
	return fmt.Errorf("the server at %s: %s (%s)", s.Address, st.Message(), st.Code())
}

// Silent says that the server did not answer in time.
func (s *Server) Silent() error {
	return &failure.Unreachable{Text: fmt.Sprintf("the server at %s did not answer within %s. "+
		"It may be starting, or be without its database: ask its /readyz. --timeout sets how long to wait", s.Address, s.Timeout)}
}

// Undecided says that the server did not answer in time whether it has made a change.
func (s *Server) Undecided() error {
	return fmt.Errorf("%w. Whether the change was made is not known", s.Silent())
}

// aside says which context would have said more of how to speak with a server.
func (s *Server) aside() string {
	if s.Aside == "" {
		return ""
	}
	return fmt.Sprintf(". The context %s was left aside, for its server has another name: --context %s uses what it says", s.Aside, s.Aside)
}

// advice says what to do about a failed connection.
func (s *Server) advice(message string) string {
	switch {
	case reason.Cause(message) == reason.NoTLS:
		return "Add --insecure if it is on this machine"
	case strings.Contains(message, "unknown authority"):
		return "Name the authority that vouches for it with --tls-ca"
	case strings.Contains(message, "x509: certificate is "), strings.Contains(message, "doesn't contain any IP SANs"):
		return "Name it as its certificate does, with --tls-server-name or --tls-server-id"
	case strings.Contains(message, "looked like an HTTP/1.1 header"):
		return "What listens there speaks HTTP: name the port for MCP, which is 15020 unless the server was told otherwise"
	case s.Dial.Plaintext.Allowed && strings.Contains(message, "server preface"):
		return "It may speak TLS alone: leave --insecure out"
	}
	return "Check that it runs and listens there, or name another with --server or PGMESH_SERVER"
}
