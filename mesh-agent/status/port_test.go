package status_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/mesh-agent/envoy/envoyadmin"
	"github.com/pgmesh/pgmesh/mesh-agent/status"
)

// ported is a status port, and the orders it received.
type ported struct {
	*status.Server

	url      string
	did      []string
	withdraw error
	saved    time.Time
}

func port(t *testing.T, address string) *ported {
	t.Helper()
	admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "listener.admin.downstream_cx_active: 1\nlistener.0.0.0.0_80.downstream_cx_active: 2\n"+
			"listener.0.0.0.0_80.worker_0.downstream_cx_active: 2\nlistener.0.0.0.0_81.downstream_cx_active: 1\n")
	}))
	t.Cleanup(admin.Close)
	p := &ported{Server: status.New()}
	do := func(what string) func(context.Context) error {
		return func(context.Context) error {
			if what == "withdraw" && p.withdraw != nil {
				return p.withdraw
			}
			p.did = append(p.did, what)
			return nil
		}
	}
	p.Log = slog.New(slog.DiscardHandler)
	p.Ready = func(context.Context) error { return nil }
	p.Drainer = status.Drainer{
		Withdraw: do("withdraw"), Return: func() { p.did = append(p.did, "return") }, Drain: do("drain"), Undrain: do("undrain"),
		Save: func(since time.Time) error { p.saved = since; return nil }, Remove: func() error { p.saved = time.Time{}; return nil },
	}
	p.Stop = func() { p.did = append(p.did, "stop") }
	p.Envoy = envoyadmin.At(func() (string, error) { return strings.TrimPrefix(admin.URL, "http://"), nil })
	p.Metrics, p.StatsPage = prometheus.NewRegistry(), http.NotFoundHandler()

	l, err := net.Listen("tcp", address)
	require.NoError(t, err)
	p.url = "http://" + l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- p.ServePort(ctx, l) }()
	t.Cleanup(func() { cancel(); require.NoError(t, <-done) })
	return p
}

func (p *ported) ask(t *testing.T, method, path string, headers ...string) (int, string) {
	t.Helper()
	request, err := http.NewRequest(method, p.url+path, nil)
	require.NoError(t, err)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			request.Host = headers[i+1]
		}
	}
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(body)
}

func TestOthersAreToldBeforeEnvoyDrains(t *testing.T) {
	t.Parallel()
	p := port(t, "127.0.0.1:0")
	code, _ := p.ask(t, http.MethodGet, "/healthz/ready")
	require.Equal(t, 200, code)
	_, body := p.ask(t, http.MethodGet, "/drain")
	require.JSONEq(t, `{"state": "running", "connections": 3}`, body)
	require.Empty(t, p.did, "a question changes nothing")

	p.withdraw = errors.New("nobody answers")
	code, body = p.ask(t, http.MethodPost, "/drain")
	require.Equal(t, 500, code)
	require.Equal(t, "tell others to send nothing here: nobody answers; nothing was drained: try again\n", body)

	p.withdraw = nil
	for range 2 {
		code, body = p.ask(t, http.MethodPost, "/drain")
		require.Equal(t, 200, code)
		var d status.DrainStatus
		require.NoError(t, json.Unmarshal([]byte(body), &d))
		require.WithinDuration(t, time.Now(), d.Since, time.Minute)
		require.True(t, d.Since.Equal(p.saved))
		require.Equal(t, status.DrainStatus{State: status.Draining, Since: d.Since, Connections: 3}, d)
	}
	require.Equal(t, []string{"withdraw", "drain"}, p.did, "once")
	code, body = p.ask(t, http.MethodGet, "/healthz/ready")
	require.Equal(t, 503, code)
	require.Equal(t, "draining\n", body)
	code, _ = p.ask(t, http.MethodGet, "/healthz/live")
	require.Equal(t, 200, code)

	p.did = nil
	code, body = p.ask(t, http.MethodPost, "/undrain")
	require.Equal(t, 200, code)
	require.JSONEq(t, `{"state": "running", "connections": 3}`, body)
	require.Equal(t, []string{"undrain", "return"}, p.did, "Envoy serves before others send anything")
	require.Zero(t, p.saved)
	code, _ = p.ask(t, http.MethodGet, "/healthz/ready")
	require.Equal(t, 200, code)

	code, _ = p.ask(t, http.MethodPost, "/quitquitquit")
	require.Equal(t, 202, code)
	require.Equal(t, []string{"undrain", "return", "stop"}, p.did)
}

func TestOrdersAreLocalOnly(t *testing.T) {
	t.Parallel()
	p := port(t, "127.0.0.1:0")
	for _, path := range []string{"/drain", "/undrain", "/quitquitquit"} {
		code, _ := p.ask(t, http.MethodPost, path, "Origin", "http://elsewhere.example", "Sec-Fetch-Site", "cross-site")
		require.Equal(t, 403, code, "a page that a browser shows")
	}
	for _, path := range []string{"/drain", "/undrain", "/quitquitquit"} {
		code, _ := p.ask(t, http.MethodPost, path, "Host", "evil.example:15020")
		require.Equal(t, 403, code, "a page of a site whose name leads here")
	}
	code, _ := p.ask(t, http.MethodGet, "/metrics", "Host", "evil.example")
	require.Equal(t, 403, code)
	code, _ = p.ask(t, http.MethodGet, "/healthz/live", "Host", "machine.example")
	require.Equal(t, 200, code)
	code, _ = p.ask(t, http.MethodGet, "/quitquitquit")
	require.Equal(t, 405, code)
	require.Empty(t, p.did)

	// As from another machine: by an address of this one that is not loopback.
	other := port(t, net.JoinHostPort(outside(t), "0"))
	for _, path := range []string{"/drain", "/undrain", "/quitquitquit"} {
		code, body := other.ask(t, http.MethodPost, path)
		require.Equal(t, 403, code)
		require.Contains(t, body, "orders are taken from this machine alone")
	}
	require.Empty(t, other.did)
	code, _ = other.ask(t, http.MethodGet, "/healthz/ready")
	require.Equal(t, 200, code)
}

// outside returns an address of this machine that others may reach.
func outside(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range all {
		if n, is := a.(*net.IPNet); is && !n.IP.IsLoopback() && n.IP.To4() != nil {
			return n.IP.String()
		}
	}
	t.Skip("this machine has no address but loopback")
	return ""
}
