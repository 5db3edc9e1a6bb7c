package cli

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// server is the server that a command speaks to, and how.
type server struct {
	address                      string
	insecure, insecureAnyAddress bool
	timeout                      time.Duration
}

// credentials are what a connection has to be made with. Plaintext has to be asked for, as it has to be on the server.
func (s *server) credentials() (grpc.DialOption, error) {
	host, _, err := net.SplitHostPort(s.address)
	if err != nil {
		return nil, s.misused(fmt.Sprintf("%v; write it as host:port", err))
	}
	if !s.insecure {
		return nil, s.misused("speaking to a server without TLS has to be asked for with --insecure (TLS is not built yet)")
	}
	if !s.insecureAnyAddress && !loopback(host) {
		return nil, s.misused("--insecure alone is for servers on loopback; " +
			"add --insecure-any-address if everyone on the way to it may read and change what is sent")
	}
	return grpc.WithTransportCredentials(insecure.NewCredentials()), nil
}

func (s *server) misused(what string) error {
	return &usageError{err: fmt.Errorf("--server %s: %s", s.address, what)}
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// explain turns the error of a call or a stream into what a person can act on.
func (s *server) explain(err error) error {
	st := status.Convert(err)
	for _, d := range st.Details() {
		if refusal, ok := d.(*adminv1.Refusal); ok {
			return &refusedError{violationsOf(refusal)}
		}
	}
	switch st.Code() {
	case codes.DeadlineExceeded:
		return s.silent()
	case codes.Unavailable:
		if len(st.Details()) > 0 { // the server itself says what is not available
			return &unreachableError{st.Message()}
		}
		return &unreachableError{fmt.Sprintf(
			"cannot reach the server at %s: %s. Check that it runs and listens there, or name another with --server or PGMESH_SERVER",
			s.address, cause(st.Message()))}
	case codes.Unimplemented:
		return fmt.Errorf("the server at %s does not offer this: %s", s.address, st.Message())
	case codes.NotFound, codes.InvalidArgument:
		return fmt.Errorf("%s", st.Message())
	}
	return fmt.Errorf("the server at %s: %s (%s)", s.address, st.Message(), st.Code())
}

func (s *server) silent() error {
	return &unreachableError{fmt.Sprintf("the server at %s did not answer within %s. "+
		"It may be starting, or be without its database: ask its /readyz. --timeout sets how long to wait", s.address, s.timeout)}
}

// cause is the innermost reason in gRPC's account of a connection that failed.
func cause(message string) string {
	if _, inner, found := strings.Cut(message, `desc = "`); found {
		message = strings.TrimSuffix(inner, `"`)
	}
	for _, prefix := range []string{"transport: ", "Error while dialing: ", "dial tcp "} {
		message = strings.TrimPrefix(message, prefix)
	}
	if _, reason, found := strings.Cut(message, ": connect: "); found {
		message = reason
	}
	return message
}
