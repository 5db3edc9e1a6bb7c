package httpapi_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/kit/inprocess"
	"github.com/pgmesh/pgmesh/mcp-server/httpapi"
)

// A body that never ends times out, whoever sends it.
func TestABodyHasToComeInTime(t *testing.T) {
	t.Parallel()
	handler, err := httpapi.New(inprocess.New(nil, nil), httpapi.Options{BodyWithin: 100 * time.Millisecond})
	require.NoError(t, err)
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "POST /v1/restore HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{")
	require.NoError(t, err)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(10*time.Second)))
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Equal(t, http.StatusBadRequest, answer.StatusCode)
}
