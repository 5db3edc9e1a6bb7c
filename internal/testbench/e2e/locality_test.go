package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// placed is an HTTP service with each backend in the place of the same index.
func (m *mesh) placed(host string, places []string, backends ...*backend) string {
	endpoints := make([]string, len(backends))
	for i, b := range backends {
		endpoints[i] = fmt.Sprintf("{address: 127.0.0.1, ports: {http: %s}, locality: %s}", b.port, places[i])
	}
	return entry(host, "HTTP", "http", m.port, endpoints)
}

func TestRequestsStayNearUntilNobodyIsThere(t *testing.T) {
	t.Parallel()
	m := newMesh(t, "--labels", "istio-locality=eu.a")
	var broken atomic.Bool
	failing := func(w http.ResponseWriter, _ *http.Request, _ int) bool {
		if broken.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		return broken.Load()
	}
	near := newBackend(t, "near", failing)
	m.commit(m.placed(reviews, []string{"eu/a", "us/a", "asia/a"}, near, newBackend(t, "us", nil), newBackend(t, "asia", nil)), balanced(`
    loadBalancer: {localityLbSetting: {failover: [{from: eu, to: us}]}}
    outlierDetection: {consecutive5xxErrors: 1, interval: 100ms, baseEjectionTime: 60s, maxEjectionPercent: 100}
`))
	m.listening()
	require.Equal(t, map[string]int{"near": 10}, m.spread(reviews, 10))

	broken.Store(true)

	m.answers(reviews, "us") // the first request finds out, unless it is sent again
	require.Equal(t, map[string]int{"us": 10}, m.spread(reviews, 10))
}

func TestRequestsAreDistributedOverPlaces(t *testing.T) {
	t.Parallel()
	m := newMesh(t, "--labels", "istio-locality=eu.a")
	m.commit(m.placed(reviews, []string{"eu/a", "eu/b", "us/a"}, backends(t, "near", "zone", "region")...),
		balanced(`{loadBalancer: {simple: ROUND_ROBIN, localityLbSetting: {distribute: [{from: eu/a, to: {eu/a: 70, eu/b: 30}}]}}}`))
	m.listening()

	got := m.spread(reviews, 200)

	require.InDelta(t, 140, got["near"], 4, "of %v", got)
	require.InDelta(t, 60, got["zone"], 4, "of %v", got)
	require.Zero(t, got["region"])
}

func TestLabelsDecideWhoIsPreferred(t *testing.T) {
	t.Parallel()
	m := newMesh(t, "--labels", "rack=r1")
	m.commit(strings.ReplaceAll(m.service(reviews, backends(t, "r1", "r2")...), "version:", "rack:"),
		balanced(`{loadBalancer: {localityLbSetting: {failoverPriority: [rack]}}, outlierDetection: {}}`))
	m.listening()
	require.Equal(t, map[string]int{"r1": 10}, m.spread(reviews, 10))

	m.commit(balanced(`{loadBalancer: {localityLbSetting: {failoverPriority: [rack=r2]}}, outlierDetection: {}}`))
	m.answeredBy(reviews, "r2")
}
