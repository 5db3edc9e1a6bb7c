package e2e

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// One request is being answered, one waits, and the third is too many.
func TestExcessRequestsAreTurnedAway(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	inside, leave := make(chan struct{}, 3), make(chan struct{})
	open := sync.OnceFunc(func() { close(leave) })
	defer open()
	slow := newBackend(t, "slow", func(http.ResponseWriter, *http.Request, int) bool {
		inside <- struct{}{}
		<-leave
		return false
	})
	m.commit(m.service(reviews, slow), balanced("{connectionPool: {tcp: {maxConnections: 1}, http: {http1MaxPendingRequests: 1}}}"))
	m.listening()
	statuses := make(chan int, 3)
	ask := func() {
		a, err := m.ask(t.Context(), request{host: reviews})
		if err != nil {
			a = &answer{}
		}
		statuses <- a.status
	}
	go ask()
	<-inside
	go ask()
	go ask()

	require.Equal(t, http.StatusServiceUnavailable, <-statuses)
	open()
	require.Equal(t, http.StatusOK, <-statuses)
	require.Equal(t, http.StatusOK, <-statuses)
}

func TestAConnectionServesALimitedNumberOfRequests(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	seen := map[string]int{}
	b := newBackend(t, "a", func(_ http.ResponseWriter, r *http.Request, _ int) bool {
		seen[r.RemoteAddr]++ // requests come one after the other
		return false
	})
	m.commit(m.service(reviews, b), balanced("{connectionPool: {http: {maxRequestsPerConnection: 2}}}"))
	m.listening()

	m.spread(reviews, 10)

	require.Len(t, seen, 5, "connections: %v", seen)
}

func TestConnectionsAreUpgradedToHTTP2(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	protocol := make(chan string, 16)
	b := newBackend(t, "a", func(_ http.ResponseWriter, r *http.Request, _ int) bool {
		protocol <- r.Proto
		return false
	})
	m.commit(m.service(reviews, b))
	m.listening()
	m.must(request{host: reviews})
	require.Equal(t, "HTTP/1.1", <-protocol)

	m.commit(balanced("{connectionPool: {http: {h2UpgradePolicy: UPGRADE}}}"))

	eventually(t, func(ctx context.Context) error {
		if _, err := m.ask(ctx, request{host: reviews}); err != nil {
			return err
		}
		if p := <-protocol; p != "HTTP/2.0" {
			return fmt.Errorf("a request came by %s", p)
		}
		return nil
	})
}

func TestAnswersThatCountAsFailuresEject(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	busy := newBackend(t, "busy", func(w http.ResponseWriter, _ *http.Request, _ int) bool {
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	})
	m.commit(m.service(reviews, busy, newBackend(t, "idle", nil)), balanced(`
    loadBalancer: {simple: ROUND_ROBIN}
    outlierDetection: {consecutive5xxErrors: 2, outlierDetectionHttpErrorCodes: [429], interval: 100ms, baseEjectionTime: 60s, maxEjectionPercent: 100}
`))
	m.listening()

	// Envoy ejects beside its work, some milliseconds after the second failure.
	eventually(t, func(ctx context.Context) error {
		for range 10 {
			if err := m.status(ctx, reviews, http.StatusOK); err != nil {
				return err
			}
		}
		return nil
	})
	ejected := busy.asked.Load()
	require.Equal(t, map[string]int{"idle": 10}, m.spread(reviews, 10))
	require.Equal(t, ejected, busy.asked.Load(), "what is ejected is asked no more")
}
