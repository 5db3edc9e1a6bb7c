package e2e

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// trafficPolicy is an XBackendTrafficPolicy for a host.
func trafficPolicy(host, said string) string {
	return fmt.Sprintf(`
apiVersion: gateway.networking.x-k8s.io/v1alpha1
kind: XBackendTrafficPolicy
metadata: {name: policy}
spec: {targetRefs: [{group: networking.istio.io, kind: Hostname, name: %s}], %s}
`, host, said)
}

// Of requests that all fail at once, a policy lets one be tried again. The others are not.
func TestAPolicyBoundsRetries(t *testing.T) {
	t.Parallel()
	const clients = 20
	m := newMesh(t)
	var failed sync.WaitGroup
	failed.Add(clients)
	release := make(chan struct{})
	b := newBackend(t, "failing", func(w http.ResponseWriter, r *http.Request, before int) bool {
		switch {
		case r.Header.Get("X-Counted") == "":
			return false
		case before < clients:
			failed.Done()
			failed.Wait()
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		default:
			<-release
			return false
		}
	})
	m.commit(m.service(reviews, b), trafficPolicy(reviews, "retryConstraint: {budget: {percent: 0}, minRetryRate: {count: 1}}"),
		httpRoute("retried", "{group: networking.istio.io, kind: ServiceEntry, name: reviews}", "ignored.example.com", "{retry: {codes: [503], attempts: 1}, backendRefs: ["+toHost(reviews, m.port)+"]}"))
	m.answers(reviews, "failing")
	b.asked.Store(0)

	statuses := make(chan int, clients)
	for range clients {
		go func() {
			a, err := m.ask(context.WithoutCancel(t.Context()), request{host: reviews, header: http.Header{"X-Counted": {"yes"}}})
			if err != nil {
				statuses <- 0
				return
			}
			statuses <- a.status
		}()
	}
	for range clients - 1 {
		require.Equal(t, http.StatusServiceUnavailable, <-statuses)
	}
	close(release)
	require.Equal(t, http.StatusOK, <-statuses)
	require.Equal(t, int64(clients+1), b.asked.Load())
}

// A policy keeps requests of a session with their endpoint, without any route.
func TestAPolicyKeepsSessions(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.commit(m.service(reviews, backends(t, "a", "b", "c", "d")...), trafficPolicy(reviews, "sessionPersistence: {sessionName: kept}"))
	first, header, cookie := m.begun(reviews, "/", "kept")
	require.Empty(t, cookie.Path)
	m.keeps(reviews, "/elsewhere", header, first.seen.Backend)
	require.Greater(t, len(m.spread(reviews, 20)), 1, "clients without a session go anywhere")
}
