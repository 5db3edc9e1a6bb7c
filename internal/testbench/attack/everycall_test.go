package attack

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pgmesh/pgmesh/internal/kit/freeport"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/internal/testbench/stack"
)

// open are the calls that take only a token in the message, or nothing at all: new members use
// them. All of them have limits.
var open = map[string]bool{
	"mcp-server /pgmesh.identity.v1.AuthorityService/Enroll":             true,
	"discovery /istio.v1.auth.IstioCertificateService/CreateCertificate": true,
}

// A stranger tries every call of every server, and never sends the message. The headers are enough
// to refuse it.
func TestEveryCallOfAStrangerIsTurnedAway(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	calls := allCalls()
	require.Greater(t, len(calls), 50)
	for server, address := range map[string]string{"mcp-server": m.MCP, "discovery": m.XDS} {
		conn := asStranger(t, address)
		offered := 0
		for _, call := range calls {
			if open[server+" "+call] {
				continue
			}
			code := answerTo(t, conn, call)
			require.Contains(t, []codes.Code{codes.Unauthenticated, codes.PermissionDenied, codes.Unimplemented}, code, "%s of %s", call, server)
			if code != codes.Unimplemented {
				offered++
			}
		}
		require.Positive(t, offered, server)
	}
}

// allCalls are the methods of all services that are linked into this program.
func allCalls() (calls []string) {
	protoregistry.GlobalFiles.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			for j := range f.Services().Get(i).Methods().Len() {
				calls = append(calls, fmt.Sprintf("/%s/%s", f.Services().Get(i).FullName(), f.Services().Get(i).Methods().Get(j).Name()))
			}
		}
		return true
	})
	return calls
}

// answerTo is the answer to a call of which only the headers were sent.
func answerTo(t *testing.T, conn *grpc.ClientConn, call string) codes.Code {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), poll.Longest)
	defer cancel()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, call)
	if err == nil {
		err = stream.RecvMsg(&anypb.Any{})
	}
	return status.Code(err)
}

// A request over HTTP is refused by its headers, too, though the rest of it never comes.
func TestARequestOfAStrangerIsTurnedAwayByItsHeaders(t *testing.T) {
	t.Parallel()
	address, err := freeport.Address()
	require.NoError(t, err)
	newMesh(t, func(s *stack.Stack) { s.ServerFlags("--api", address) })
	for _, path := range []string{"/v1/resources", "/v1/restore", "/v1/tokens", "/v1/default-deny"} {
		conn, err := tls.Dial("tcp", address, &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true})
		require.NoError(t, err)
		defer conn.Close()
		start := time.Now()
		_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: mesh\r\nContent-Length: 60000000\r\n\r\n%s", path, strings.Repeat("a", 100))
		require.NoError(t, err)
		require.NoError(t, conn.SetReadDeadline(start.Add(poll.Longest)))
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err, path)
		require.Equal(t, http.StatusUnauthorized, answer.StatusCode, path)
		_ = answer.Body.Close()
	}
}
