package rollout_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	rolloutv1 "github.com/pgmesh/pgmesh/proto/pgmesh/rollout/v1"
)

func TestTheViewShowsWhatIsReported(t *testing.T) {
	t.Parallel()
	s := serve(t)
	eu, us := s.discovery("eu"), s.discovery("us")
	eu.told(7, proxy(1, "vm-1"), proxy(2, "vm-2"))
	us.told(6, proxy(1, "vm-3"))
	require.Equal(t, []string{
		"shop vm-1 synced sent 7 runs 7 refused 0 of eu at mcp",
		"shop vm-2 synced sent 7 runs 7 refused 0 of eu at mcp",
		"shop vm-3 synced sent 6 runs 6 refused 0 of us at mcp",
	}, s.shown())
	require.Equal(t, int64(1), s.keepers(), "which is of both")

	eu.told(8, &rolloutv1.Proxy{Stream: 2, State: rolloutv1.Proxy_STATE_REFUSED, Sent: 8, Runs: 7, Refused: math.MaxUint32})
	require.Equal(t, []string{
		"shop vm-1 synced sent 8 runs 8 refused 0 of eu at mcp",
		"shop vm-2 refused sent 8 runs 7 refused 2147483647 of eu at mcp",
	}, s.shown()[:2])
	require.NoError(t, eu.tell(&rolloutv1.ReportRequest{Revision: 8, Gone: []uint64{2, 5, math.MaxUint64}}))
	require.Contains(t, s.shown()[1], "vm-2 away")
	require.Equal(t, codes.InvalidArgument, status.Code(eu.tell(&rolloutv1.ReportRequest{Proxies: []*rolloutv1.Proxy{{Stream: 2, State: rolloutv1.Proxy_STATE_SILENT}}})), "it has gone")
	s.eventually(
		"shop vm-1 away sent 8 runs 8 refused 0 of eu at mcp",
		"shop vm-2 away sent 8 runs 7 refused 2147483647 of eu at mcp",
		"shop vm-3 synced sent 6 runs 6 refused 0 of us at mcp",
	)
	require.NoError(t, testutil.GatherAndCompare(s.metrics, strings.NewReader(`
# HELP pgmesh_mcp_server_rollout_messages_total Messages of these reports: done, refused, since they can never be taken, or failed. After the last two the stream ends.
# TYPE pgmesh_mcp_server_rollout_messages_total counter
pgmesh_mcp_server_rollout_messages_total{result="done"} 4
pgmesh_mcp_server_rollout_messages_total{result="refused"} 1
# HELP pgmesh_mcp_server_rollout_reports Discoveries that report here what their proxies run.
# TYPE pgmesh_mcp_server_rollout_reports gauge
pgmesh_mcp_server_rollout_reports 1
`), "pgmesh_mcp_server_rollout_messages_total", "pgmesh_mcp_server_rollout_reports"))
}

// A server has a connection for reports while there are some. Its loss ends them, and the next
// report has another.
func TestReportsEndWithTheirConnection(t *testing.T) {
	t.Parallel()
	s := serve(t)
	d, other := s.discovery("eu"), s.discovery("us")
	d.told(7, proxy(1, "vm-1"))
	other.told(7, proxy(1, "vm-2"))
	const end = "SELECT pg_terminate_backend(l.pid) FROM pg_locks l JOIN mesh_internal.report_keepers k USING (pid) WHERE l.locktype = 'advisory'"
	require.Equal(t, []bool{true}, list[bool](s, end))
	for _, d := range []*discovery{d, other} {
		_, err := d.stream.Recv()
		require.Equal(t, codes.Unavailable, status.Code(err))
		require.ErrorContains(t, err, "the report counts no more")
	}
	s.eventually("shop vm-1 away sent 7 runs 7 refused 0 of eu at mcp", "shop vm-2 away sent 7 runs 7 refused 0 of us at mcp")
	d = s.discovery("eu")
	d.told(7, proxy(1, "vm-1"))
	require.Equal(t, "shop vm-1 synced sent 7 runs 7 refused 0 of eu at mcp", s.shown()[0])
	require.Equal(t, int64(1), s.keepers())
	d.leave()
	s.eventually("shop vm-1 away sent 7 runs 7 refused 0 of eu at mcp", "shop vm-2 away sent 7 runs 7 refused 0 of us at mcp")
	s.nobodyKeeps()
}

func TestAServerThatStopsEndsItsReports(t *testing.T) {
	t.Parallel()
	s := serve(t)
	d, silent := s.discovery("eu"), s.discovery("us")
	d.told(7, proxy(1, "vm-1"))
	s.stop()
	for _, d := range []*discovery{d, silent} {
		_, err := d.stream.Recv()
		require.Equal(t, codes.Unavailable, status.Code(err))
	}
	require.Equal(t, []string{"shop vm-1 away sent 7 runs 7 refused 0 of eu at mcp"}, s.shown())
	require.Zero(t, s.keepers())
}

func TestAMessageThatCanNeverBeTakenIsRefused(t *testing.T) {
	t.Parallel()
	s := serve(t)
	many := make([]*rolloutv1.Proxy, 1001)
	for i := range many {
		many[i] = proxy(uint64(i), fmt.Sprint("vm-", i))
	}
	for says, m := range map[string]*rolloutv1.ReportRequest{
		"discovery: the first message has to say what the discovery is called":  {Number: 1},
		"number: messages are counted from 1, and this is 18446744073709551615": {Discovery: "eu", Number: math.MaxUint64},
		"proxies: there are 1001, of at most 1000: send several messages":       {Discovery: "eu", Proxies: many},
		"stream 7 is there twice":     {Discovery: "eu", Proxies: []*rolloutv1.Proxy{proxy(7, "a"), proxy(7, "b")}},
		"stream 7 was not described":  {Discovery: "eu", Proxies: []*rolloutv1.Proxy{{Stream: 7, State: rolloutv1.Proxy_STATE_IN_STEP}}},
		`stream 7: "" is not a state`: {Discovery: "eu", Proxies: []*rolloutv1.Proxy{{Stream: 7}}},
	} {
		d := s.discovery("")
		if m.Number == 0 {
			m.Number = 1
		}
		require.NoError(t, d.stream.Send(m))
		_, err := d.stream.Recv()
		require.Equal(t, codes.InvalidArgument, status.Code(err), says)
		require.ErrorContains(t, err, says)
	}
	require.Empty(t, s.shown())
	s.discovery("eu").told(1, many[:1000]...)
	require.Len(t, s.shown(), 1000)
}

// What one proxy says of itself does not keep its discovery from reporting the others.
func TestWhatProxiesSayIsCut(t *testing.T) {
	t.Parallel()
	s := serve(t)
	odd := proxy(1, "vm-1")
	d := odd.Description
	d.Node, d.Network, d.Labels = strings.Repeat("n", 1<<20), "a\x00b", map[string]string{}
	for i := range 1000 {
		d.Labels[fmt.Sprintf("label-%04d", i)] = "\x00"
		d.Addresses = append(d.Addresses, "10.0.0.1")
	}
	s.discovery("eu").told(1, odd, proxy(2, "vm-2"))
	require.Len(t, s.shown(), 2)
}
