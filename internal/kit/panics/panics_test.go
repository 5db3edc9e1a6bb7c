package panics_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/kit/panics"
	"github.com/pgmesh/pgmesh/internal/rpc"
)

// lines records the log.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *lines) of(id string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, "panic="+id) {
			found = append(found, line)
		}
	}
	return found
}

var logged lines

func TestMain(m *testing.M) {
	panics.LogTo(slog.New(slog.NewTextHandler(&logged, nil)))
	if code := m.Run(); code != 0 {
		os.Exit(code)
	}
	goleak.VerifyTestMain(m)
}

// broken panics in different ways.
type broken struct {
	grpc_health_v1.UnimplementedHealthServer
}

func (broken) Check(_ context.Context, r *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	if r.GetService() == "" {
		return &grpc_health_v1.HealthCheckResponse{}, nil
	}
	panic("the service of a caller is " + r.GetService())
}

func (broken) Watch(*grpc_health_v1.HealthCheckRequest, grpc.ServerStreamingServer[grpc_health_v1.HealthCheckResponse]) error {
	none := []int{}
	return status.Error(codes.Code(none[0]), "there is none")
}

var idOf = regexp.MustCompile(`panic ([0-9a-f]{8})\b`)

// idIn returns the panic's id from an error text.
func idIn(t *testing.T, text string) string {
	t.Helper()
	found := idOf.FindStringSubmatch(text)
	require.NotNil(t, found, text)
	return found[1]
}

func TestServerSurvivesPanickingHandlers(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := rpc.NewServer(grpc.Creds(panics.Credentials(insecure.NewCredentials())))
	grpc_health_v1.RegisterHealthServer(server, broken{})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() { server.Stop(); require.NoError(t, <-served) })
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	client := grpc_health_v1.NewHealthClient(conn)
	secret := strings.Repeat("x", 1<<20)

	var ids []string
	for range 3 {
		_, err = client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: secret})
		require.Equal(t, codes.Internal, status.Code(err))
		require.NotContains(t, err.Error(), "xxx", "the message of a panic may be about other callers")
		ids = append(ids, idIn(t, err.Error()))
	}
	require.Equal(t, []string{ids[0], ids[0], ids[0]}, ids, "the same defect has the same id")
	lines := logged.of(ids[0])
	require.Len(t, lines, 1, "a peer that found a defect must not fill the log")
	require.Contains(t, lines[0], "broken.Check(")
	require.Less(t, len(lines[0]), 16<<10)

	watch, err := client.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	require.NoError(t, err)
	_, err = watch.Recv()
	require.Equal(t, codes.Internal, status.Code(err))
	require.Contains(t, logged.of(idIn(t, err.Error()))[0], "index out of range")

	_, err = client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	require.NoError(t, err, "other calls are served")
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(panics.Collector())
	count, err := testutil.GatherAndCount(metrics, "pgmesh_panics_total")
	require.NoError(t, err)
	require.GreaterOrEqual(t, count, 2)
}

func TestPanickingPagesAnswer500(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("/broken", func(http.ResponseWriter, *http.Request) { panic(errors.New("no page")) })
	mux.HandleFunc("/begun", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half of it")
		w.(http.Flusher).Flush()
		panic("no more")
	})
	mux.HandleFunc("/aborted", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	mux.HandleFunc("/whole", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "whole") })
	server := httptest.NewServer(panics.Handler(mux))
	t.Cleanup(server.Close)
	get := func(path string) (code int, body string, err error) {
		answer, err := http.Get(server.URL + path)
		if err != nil {
			return 0, "", err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		return answer.StatusCode, string(text), err
	}

	code, body, err := get("/broken")
	require.NoError(t, err)
	require.Equal(t, http.StatusInternalServerError, code)
	require.Contains(t, logged.of(idIn(t, body))[0], "no page")
	_, body, err = get("/begun")
	require.Error(t, err, "the client must see that the response is incomplete")
	require.Equal(t, "half of it", body)
	_, _, err = get("/aborted")
	require.Error(t, err)
	code, body, err = get("/whole")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, "whole", body)
}

// handshake is credentials whose handshake panics.
type handshake struct {
	credentials.TransportCredentials
}

func (handshake) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) { panic("no hand") }

func TestPanicsBecomeErrors(t *testing.T) {
	t.Parallel()
	_, _, err := panics.Credentials(handshake{insecure.NewCredentials()}).Clone().ServerHandshake(nil)
	require.NoError(t, err, "Clone clones the wrapped credentials, whose Clone does not panic")
	_, _, err = panics.Credentials(handshake{insecure.NewCredentials()}).ServerHandshake(nil)
	require.Equal(t, codes.Internal, status.Code(err))

	message, err := panics.Receive(func() (int, error) { panic("no message") })
	require.Zero(t, message)
	require.Contains(t, logged.of(idIn(t, err.Error()))[0], "no message")
	require.ErrorIs(t, panics.Try("test", func() error { return io.EOF }), io.EOF)
	panics.Run("test", func() { panic("nothing comes of it") })
}
