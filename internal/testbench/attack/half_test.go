package attack

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/poll"
)

// half is most of a message of 60 MiB. The rest never comes.
type half struct {
	end  <-chan struct{}
	at   int
	sent *atomic.Int64
}

func (h *half) Read(p []byte) (int, error) {
	const size = 60 << 20
	if h.at == 0 {
		h.at = 1
		return copy(p, []byte{0, size >> 24, size >> 16 & 0xff, size >> 8 & 0xff, size & 0xff}), nil
	}
	if h.at > size*9/10 {
		<-h.end
		return 0, io.ErrUnexpectedEOF
	}
	n := min(len(p), 16<<10)
	h.at += n
	h.sent.Add(int64(n))
	return n, nil
}

// Readers send most of a large message each, from two addresses, and then nothing.
func TestHalfMessagesOfReadersTakeNoMemory(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	b := newBystander(m)
	token, err := os.ReadFile(m.token("stalling", "read"))
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var sent atomic.Int64
	send := func(from string) {
		dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		client := &http.Transport{ForceAttemptHTTP2: true, DialContext: dialer.DialContext, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}}
		t.Cleanup(client.CloseIdleConnections)
		request, err := http.NewRequestWithContext(ctx, http.MethodPost,
			"https://"+m.MCP+discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResources_FullMethodName, &half{end: ctx.Done(), sent: &sent})
		require.NoError(t, err)
		request.Header = http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}, "Authorization": {"Bearer " + strings.TrimSpace(string(token))}}
		go func() {
			if response, err := client.RoundTrip(request); err == nil {
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
			}
		}()
	}
	check := keepsBelow(t, memory{m.MCPServer, 800})
	b.undisturbed(func() func() {
		for range 30 {
			send("127.0.0.1")
			send("127.0.0.2")
		}
		require.Eventually(t, func() bool {
			return strings.Contains(m.page(m.MCPServer.HTTP(), "/metrics"), `pgmesh_mcp_server_limit_refusals_total{limit="unfinished"} 5`)
		}, poll.Longest, 50*time.Millisecond, "those that find no memory lose their connections") // 56 of 60
		return stop
	})
	t.Logf("%d MiB were sent", sent.Load()>>20)
	check()
	m.client("get", "all", "-A", "-o", "name")
}
