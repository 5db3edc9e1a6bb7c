package rollout_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	rolloutv1 "github.com/pgmesh/pgmesh/proto/pgmesh/rollout/v1"
)

// waiting is a call of WaitUntilRun.
type waiting struct {
	t      *testing.T
	stream grpc.ServerStreamingClient[adminv1.WaitUntilRunResponse]
	leave  func()
}

func (s *server) api() adminv1.ProxyServiceClient {
	s.t.Helper()
	conn, err := grpc.NewClient(s.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = conn.Close() })
	return adminv1.NewProxyServiceClient(conn)
}

func wait(t *testing.T, api adminv1.ProxyServiceClient, req *adminv1.WaitUntilRunRequest) *waiting {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	stream, err := api.WaitUntilRun(ctx, req)
	require.NoError(t, err)
	return &waiting{t, stream, cancel}
}

// line is a message in words.
func (w *waiting) line() string {
	w.t.Helper()
	m, err := w.stream.Recv()
	require.NoError(w.t, err)
	text := fmt.Sprintf("%d of %d run %d, %d refuse", m.GetRunning(), m.GetConnected(), m.GetRevision(), m.GetRefusing())
	if m.GetOutcome() == adminv1.WaitUntilRunResponse_OUTCOME_UNSPECIFIED {
		return text
	}
	var behind []string
	for _, b := range m.GetBehind() {
		behind = append(behind, fmt.Sprintf("%s/%s %s sent %d runs %d refused %d", b.GetNamespace(), b.GetProxy(), b.GetState(), b.GetSent(), b.GetRuns(), b.GetRefused()))
	}
	_, err = w.stream.Recv()
	require.ErrorIs(w.t, err, io.EOF, "the outcome is in the last message")
	return strings.TrimSuffix(m.GetOutcome().String()+": "+text+": "+strings.Join(behind, "; "), ": ")
}

// commits makes so many revisions.
func (s *server) commits(revisions int) {
	s.t.Helper()
	for n := range revisions {
		_, err := s.conn.Exec(s.t.Context(), `INSERT INTO mesh.resources (api_group, kind, namespace, name, spec)
			VALUES ('networking.istio.io', 'VirtualService', 'shop', $1, '{"hosts": ["a.example"], "http": [{"directResponse": {"status": 200}}]}')`, fmt.Sprintf("vs-%d", n))
		require.NoError(s.t, err)
	}
}

func share(s float64) *adminv1.WaitUntilRunRequest_Share {
	return &adminv1.WaitUntilRunRequest_Share{Share: s}
}

func number(n int32) *adminv1.WaitUntilRunRequest_Count {
	return &adminv1.WaitUntilRunRequest_Count{Count: n}
}

func TestAWaitTellsHowFarProxiesAre(t *testing.T) {
	t.Parallel()
	s := serve(t)
	api := s.api()
	require.Equal(t, "OUTCOME_DONE: 0 of 0 run 0, 0 refuse", wait(t, api, &adminv1.WaitUntilRunRequest{}).line(), "nobody is there")
	s.commits(2)
	d := s.discovery("eu")
	d.told(1, proxy(1, "cart"), proxy(2, "pay"), proxy(3, "web"))
	require.Equal(t, "OUTCOME_DONE: 3 of 3 run 1, 0 refuse", wait(t, api, &adminv1.WaitUntilRunRequest{Revision: 1}).line())

	all, most, one := wait(t, api, &adminv1.WaitUntilRunRequest{}), wait(t, api, &adminv1.WaitUntilRunRequest{Revision: 2, Enough: share(0.5)}),
		wait(t, api, &adminv1.WaitUntilRunRequest{Revision: 2, Enough: number(1)})
	for _, w := range []*waiting{all, most, one} {
		require.Equal(t, "0 of 3 run 2, 0 refuse", w.line())
	}
	sending := func(stream uint64) *rolloutv1.Proxy {
		return &rolloutv1.Proxy{Stream: stream, State: rolloutv1.Proxy_STATE_SENDING, Sent: 2, Runs: 1}
	}
	d.told(2, sending(1), sending(2))
	require.Equal(t, "OUTCOME_DONE: 1 of 3 run 2, 0 refuse", one.line())
	require.Equal(t, []string{"1 of 3 run 2, 0 refuse", "1 of 3 run 2, 0 refuse"}, []string{most.line(), all.line()})
	d.told(2, &rolloutv1.Proxy{Stream: 1, State: rolloutv1.Proxy_STATE_IN_STEP})
	require.Equal(t, "OUTCOME_DONE: 2 of 3 run 2, 0 refuse", most.line())
	require.Equal(t, "2 of 3 run 2, 0 refuse", all.line())
	require.NoError(t, d.tell(&rolloutv1.ReportRequest{Revision: 2, Gone: []uint64{2}}))
	require.Equal(t, "OUTCOME_DONE: 2 of 2 run 2, 0 refuse", all.line(), "who has gone is not waited for")

	many := wait(t, api, &adminv1.WaitUntilRunRequest{Enough: number(3)})
	require.Equal(t, "2 of 2 run 2, 0 refuse", many.line(), "more may connect")
	d.told(2, proxy(4, "new"))
	require.Equal(t, "OUTCOME_DONE: 3 of 3 run 2, 0 refuse", many.line())
}

func TestAWaitNamesWhoIsBehind(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.commits(2)
	d, api := s.discovery("eu"), s.api()
	d.told(1, proxy(1, "a"), proxy(2, "b"), proxy(3, "c"), proxy(4, "d"), proxy(5, "e"), proxy(6, "f"), proxy(7, "g"))
	refused := &rolloutv1.Proxy{Stream: 7, State: rolloutv1.Proxy_STATE_REFUSED, Sent: 1, Runs: 1, Refused: 1}
	d.told(1, refused, &rolloutv1.Proxy{Stream: 6, State: rolloutv1.Proxy_STATE_SILENT, Sent: 2, Runs: 1})
	require.Equal(t, "OUTCOME_LATE: 0 of 7 run 2, 0 refuse: shop/g refused sent 1 runs 1 refused 1; shop/f silent sent 2 runs 1 refused 0; "+
		"shop/a synced sent 1 runs 1 refused 0; shop/b synced sent 1 runs 1 refused 0; shop/c synced sent 1 runs 1 refused 0",
		wait(t, api, &adminv1.WaitUntilRunRequest{Timeout: durationpb.New(0)}).line(), "what one refuses of an older revision may be mended")

	w := wait(t, api, &adminv1.WaitUntilRunRequest{Enough: share(0.8), Timeout: durationpb.New(limit)})
	require.Equal(t, "0 of 7 run 2, 0 refuse", w.line())
	refused.Sent = 2
	d.told(2, refused, &rolloutv1.Proxy{Stream: 6, State: rolloutv1.Proxy_STATE_REFUSED, Sent: 2, Runs: 1, Refused: 3})
	require.Equal(t, "5 of 7 run 2, 2 refuse", w.line())
	require.Equal(t, "OUTCOME_REFUSED: 5 of 7 run 2, 2 refuse: shop/f refused sent 2 runs 1 refused 3; shop/g refused sent 2 runs 1 refused 1", w.line())
	require.Equal(t, "OUTCOME_DONE: 5 of 7 run 2, 2 refuse", wait(t, api, &adminv1.WaitUntilRunRequest{Enough: share(0.7)}).line())

	w = wait(t, api, &adminv1.WaitUntilRunRequest{})
	require.Equal(t, "5 of 7 run 2, 2 refuse", w.line())
	for _, stream := range []uint64{7, 6} {
		d.told(2, &rolloutv1.Proxy{Stream: stream, State: rolloutv1.Proxy_STATE_IN_STEP})
	}
	for line := w.line(); line != "OUTCOME_DONE: 7 of 7 run 2, 0 refuse"; line = w.line() {
		require.Equal(t, "6 of 7 run 2, 1 refuse", line, "what is mended soon is not refused")
	}
}

// All are away where a server has died, until their discoveries have found another.
func TestAWaitHoldsOutUntilProxiesAreBack(t *testing.T) {
	t.Parallel()
	s := serve(t)
	d := s.discovery("eu")
	d.told(1, proxy(1, "cart"))
	d.leave()
	s.eventually("shop cart away sent 1 runs 1 refused 0 of eu at mcp")
	w := wait(t, s.api(), &adminv1.WaitUntilRunRequest{})
	require.Equal(t, "0 of 0 run 0, 0 refuse", w.line())
	s.discovery("us").told(1, proxy(1, "cart"))
	require.Equal(t, "OUTCOME_DONE: 1 of 1 run 0, 0 refuse", w.line())
}

func TestAWaitRefusesWhatCannotBeMeant(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for _, test := range []struct {
		req    *adminv1.WaitUntilRunRequest
		code   codes.Code
		reason string
	}{
		{&adminv1.WaitUntilRunRequest{Revision: 1}, codes.OutOfRange, "there is no revision 1 yet: the newest is 0"},
		{&adminv1.WaitUntilRunRequest{Revision: -1}, codes.InvalidArgument, "revision: must not be negative"},
		{&adminv1.WaitUntilRunRequest{Enough: share(1.1)}, codes.InvalidArgument, "share: 1.1 is no share"},
		{&adminv1.WaitUntilRunRequest{Enough: number(0)}, codes.InvalidArgument, "count: 0 is no number"},
		{&adminv1.WaitUntilRunRequest{Timeout: durationpb.New(time.Hour + 1)}, codes.InvalidArgument, "timeout: 1h0m0.000000001s is no time to wait"},
		{&adminv1.WaitUntilRunRequest{Timeout: durationpb.New(-1)}, codes.InvalidArgument, "timeout: -1ns is no time to wait"},
	} {
		_, err := wait(t, s.api(), test.req).stream.Recv()
		require.Equal(t, test.code, status.Code(err), test.req)
		require.ErrorContains(t, err, test.reason)
	}
}

// Who goes away makes room for others, and a server that stops lets nobody wait.
func TestWaitsAreBounded(t *testing.T) {
	t.Parallel()
	s := serve(t)
	d, api := s.discovery("eu"), s.api()
	s.commits(1)
	d.told(0, proxy(1, "cart"))
	var all []*waiting
	for range 64 {
		w := wait(t, api, &adminv1.WaitUntilRunRequest{})
		require.Equal(t, "0 of 1 run 1, 0 refuse", w.line())
		all = append(all, w)
	}
	_, err := wait(t, api, &adminv1.WaitUntilRunRequest{}).stream.Recv()
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	require.ErrorContains(t, err, "64 callers wait for proxies at this server, which is as many as may")
	all[0].leave()
	poll.Within(t, limit, func(context.Context) error {
		m, err := wait(t, api, &adminv1.WaitUntilRunRequest{}).stream.Recv()
		if err == nil && m.GetConnected() != 1 {
			err = errors.New("it counts otherwise")
		}
		return err
	})
	d.leave()
	s.stop()
	for {
		if _, err = all[1].stream.Recv(); err != nil {
			break
		}
	}
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.ErrorContains(t, err, "the server is shutting down")
}
